"""Documents in JSON, YAML, XML, TOML or CSV that must fit a schema. The README defines the reward."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, Self

import orjson
from pydantic import Field, field_validator, model_validator

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseRunRequest,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    SimpleResourcesServer,
)
from nemo_gym.processes.workers import default_pool
from nemo_gym.responses.wire import read_field
from nemo_gym.reward_profile import compute_pass_majority_metrics, compute_subset_metrics
from nemo_gym.verify.answers import final_text
from resources_servers.structured_outputs.checking import DocumentProblem, Extraction, Task, find_problem
from resources_servers.structured_outputs.documents.documents import DocumentFormat


class ResponseMode(StrEnum):
    """The part of the response that holds the answer."""

    TEXT = "text"
    TOOL_CALL = "tool_call"
    """The arguments of a function call."""


class StructuredOutputsConfig(BaseResourcesServerConfig):
    REVERIFY_MODE: ClassVar[ReverifyMode] = ReverifyMode.STATELESS

    checking_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds that the check of one answer may take; beyond them it scores 0 as the answer's fault."""


class StructuredOutputsRunRequest(BaseRunRequest):
    schema_str: str
    """A JSON schema, as JSON."""
    schema_type: DocumentFormat = DocumentFormat.JSON
    close_schema: bool = True
    """True if every property in the schema is required and no other is allowed, regardless of `required`."""
    extraction: Extraction = Extraction.STRICT
    expected: Any = None
    """The expected value of the document; without it every document that fits the schema is right."""
    response_mode: ResponseMode = ResponseMode.TEXT
    tool_name: str | None = None
    """The function whose call is the answer, for `response_mode: tool_call`."""
    tool_payload_key: str | None = None
    """The argument that holds the document; without it the document is the object of all arguments."""

    @field_validator("schema_str", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return orjson.dumps(value).decode() if isinstance(value, dict) else value

    @field_validator("schema_type", mode="before")
    @classmethod
    def _in_lower_case(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _require_a_tool_to_call(self) -> Self:
        if self.response_mode is ResponseMode.TOOL_CALL and not self.tool_name:
            raise ValueError("response_mode tool_call needs tool_name")
        return self


class StructuredOutputsVerifyRequest(StructuredOutputsRunRequest, BaseVerifyRequest):
    pass


class StructuredOutputsVerifyResponse(StructuredOutputsVerifyRequest, BaseVerifyResponse):
    error_type: str | None
    """The reason for a reward of 0: `empty_response`, `no_document`, `parse_error`, `validation_error` or
    `content_error`."""
    error_message: str | None


class StructuredOutputsResourcesServer(SimpleResourcesServer):
    config: StructuredOutputsConfig
    reads_tokens: ClassVar[bool] = False

    async def verify(  # type: ignore[override]  # with this environment's own row
        self, body: StructuredOutputsVerifyRequest
    ) -> StructuredOutputsVerifyResponse:
        problem = await self._find_problem(body)
        return StructuredOutputsVerifyResponse(
            **dict(body),
            reward=float(problem is None),
            error_type=problem.kind if problem else None,
            error_message=problem.message if problem else None,
        )

    async def _find_problem(self, body: StructuredOutputsVerifyRequest) -> DocumentProblem | None:
        task = Task(body.schema_str, close_schema=body.close_schema, expected=body.expected)
        if body.response_mode is ResponseMode.TEXT:
            answer = final_text(body.response)
            task = task._replace(document_format=body.schema_type, extraction=body.extraction)
        else:
            answer = arguments_of_call(body)
            task = task._replace(is_call=True, payload_key=body.tool_payload_key)
        return await default_pool().run(find_problem, answer, task, timeout_s=self.config.checking_timeout_s)

    def compute_metrics(self, tasks: list[list[dict[str, Any]]]) -> dict[str, Any]:
        return compute_pass_majority_metrics(tasks)[0] | compute_subset_metrics(tasks, "schema_type")


def arguments_of_call(body: StructuredOutputsVerifyRequest) -> str:
    """Return the arguments of the last call of the row's tool, as the model wrote them; "" when there is none."""
    items = [item for item in body.response.output if read_field(item, "type") == "function_call"]
    calls = [item for item in items if read_field(item, "name") == body.tool_name]
    return str(read_field(calls[-1], "arguments") or "{}") if calls else ""


if __name__ == "__main__":
    StructuredOutputsResourcesServer.run_webserver()
