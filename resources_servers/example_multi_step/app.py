"""An environment with several steps: look up values with one tool, then submit the list with another."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from fastapi import FastAPI
from pydantic import BaseModel

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)


class GetSynonymValueRequest(BaseModel):
    synonym: str


class GetSynonymValueResponse(BaseModel):
    synonym_value: int


class ExtractSynonymValuesRequest(BaseModel):
    synonym_values: list[int]


class ExtractSynonymValuesResponse(BaseModel):
    success: bool


class MultiStepRunRequest(BaseRunRequest):
    expected_synonym_values: list[int]
    minefield_label: str | int | None = None
    """The term of the query, whose own value must not be submitted: only those of its synonyms count."""
    minefield_label_value: int | None = None


class MultiStepVerifyRequest(MultiStepRunRequest, BaseVerifyRequest):
    pass


class MultiStepVerifyResponse(MultiStepVerifyRequest, BaseVerifyResponse):
    parsed_synonym_values: list[int]
    accuracy: bool
    set_overlap: float
    original_term_minefield_hit: bool
    order_instruction_following_failure: bool


class ExampleMultiStepResourcesServer(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    reads_tokens: ClassVar[bool] = False

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/get_synonym_value")(self.get_synonym_value)
        app.post("/extract_synonym_values")(self.extract_synonym_values)
        return app

    async def get_synonym_value(self, body: GetSynonymValueRequest) -> GetSynonymValueResponse:
        return GetSynonymValueResponse(synonym_value=value_of(body.synonym))

    async def extract_synonym_values(self, body: ExtractSynonymValuesRequest) -> ExtractSynonymValuesResponse:
        return ExtractSynonymValuesResponse(success=True)

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: MultiStepVerifyRequest
    ) -> MultiStepVerifyResponse:
        handed_in = last_handed_in(body.response.output)
        expected = body.expected_synonym_values
        accuracy = handed_in == expected
        overlap = len(set(handed_in) & set(expected)) / len(expected) if expected else float(accuracy)
        return MultiStepVerifyResponse(
            **dict(body),
            reward=float(accuracy),
            parsed_synonym_values=handed_in,
            accuracy=accuracy,
            set_overlap=overlap,
            original_term_minefield_hit=body.minefield_label_value in handed_in,
            order_instruction_following_failure=not accuracy and set(handed_in) == set(expected),
        )


def value_of(synonym: str) -> int:
    """Return the value of a word: the sum of its characters' code points."""
    return sum(map(ord, synonym))


def last_handed_in(output: list[Any]) -> list[int]:
    """Return the values of the last well-formed call of `extract_synonym_values`; empty when there is none."""
    for item in reversed(output):
        if item.type == "function_call" and item.name == "extract_synonym_values":
            try:
                return ExtractSynonymValuesRequest.model_validate(json.loads(item.arguments)).synonym_values
            except ValueError:
                continue  # the model's own mistake: an earlier call may have been right
    return []


if __name__ == "__main__":
    ExampleMultiStepResourcesServer.run_webserver()
