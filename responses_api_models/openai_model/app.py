"""A model at OpenAI, or at any OpenAI-compatible API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from nemo_gym.engines.engine import ENGINE_RETRY, AttributedTo, UpstreamEngine
from nemo_gym.engines.engine_model import (
    EngineModel,
    EngineModelConfig,
    model_entry,
    models_list,
    new_id,
    now,
)
from nemo_gym.engines.responses_upstream import (
    build_responses_request,
    check_finished_response,
    drop_our_fields,
    string_metadata,
)
from nemo_gym.failures import build_error
from nemo_gym.responses import (
    OPENAI,
    Dialect,
    build_chat_request,
    convert_chat_request,
    convert_chat_to_response,
    convert_response_to_chat,
    tidy_chat_request,
)
from nemo_gym.responses.engine_errors import is_error_body, read_body_failure
from nemo_gym.responses.problems import ConversionProblems
from nemo_gym.transport import RetryBudget, Transport

_ATTEMPT_S = 0.5
"""The ecosystem waits this long between attempts."""


class OpenAIModelConfig(EngineModelConfig):
    openai_base_url: str | list[str]
    """One URL, or one per replica; usually ends in `/v1`. A session always uses the same replica."""
    openai_api_key: str = Field(repr=False)
    openai_model: str
    """The model's name in upstream requests; it replaces the name in a request."""
    extra_body: dict[str, Any] = Field(default_factory=dict)
    """Fields of every upstream request; they override the request, and null removes a field of it."""
    openai_default_headers: dict[str, str] = Field(default_factory=dict, repr=False)
    drop_input_reasoning_items: bool = False
    """Remove the reasoning of earlier turns from requests. Required if another model produced it."""
    merge_metadata_extras: bool = False
    """Move `metadata.extra_body` and `metadata.chat_template_kwargs` of a row to fields of the request, for upstreams
    with an engine's fields. OpenAI has none of them, so they are removed otherwise."""
    upstream_api: Literal["both", "responses", "chat_completions"] = "both"
    """The APIs that the upstream supports; requests of the other API are converted."""
    retry_s: float = Field(default=60.0, ge=0)
    """Seconds after which a request to a busy or unreachable upstream is not retried."""
    max_http_attempts: int | None = Field(default=None, ge=1)
    """Attempts of a request, 8 by default. Half a second is allowed for each, if that is more than `retry_s`."""
    max_concurrent_requests: int | None = Field(default=None, ge=1)
    """Requests to the upstream at a time; further ones wait in the order of their arrival."""

    def retry_budget(self) -> RetryBudget:
        budget = replace(ENGINE_RETRY, seconds=self.retry_s)
        attempts = self.max_http_attempts
        if attempts is None:
            return budget
        return replace(budget, attempts=attempts, seconds=max(self.retry_s, attempts * _ATTEMPT_S))


class OpenAIModel(EngineModel):
    config: OpenAIModelConfig
    is_provider = True

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._engine = self.new_engine()
        self._dialect = self.new_dialect()

    def new_engine(self) -> UpstreamEngine:
        return UpstreamEngine(
            self.config.openai_base_url,
            headers={**self.credentials(), **self.config.openai_default_headers},
            query=self.query(),
            transport=self.new_transport(),
            budget=self.config.retry_budget(),
            max_concurrent=self.config.max_concurrent_requests,
        )

    def credentials(self) -> dict[str, str]:
        """Return the headers with the credentials."""
        return {"Authorization": f"Bearer {self.config.openai_api_key}"}

    def query(self) -> dict[str, str]:
        """Return the query parameters of every request."""
        return {}

    def new_transport(self) -> Transport | None:
        """Return the transport to the upstream; None for HTTP."""
        return None

    def new_dialect(self) -> Dialect:
        return replace(
            OPENAI,
            drop_input_reasoning_items=self.config.drop_input_reasoning_items,
            merge_metadata_extras=self.config.merge_metadata_extras,
        )

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.config.upstream_api != "chat_completions":
            return await self._respond_natively(params)
        if isinstance(params.get("input"), list):
            params = {**params, "input": drop_our_fields(params["input"])}
        body, notes = build_chat_request(params, self._dialect)
        self.take_notes(notes)
        chat, url = await self._engine.post("/chat/completions", self._upstream(self._with_metadata(body)))
        with AttributedTo(url):
            answer = convert_chat_to_response(chat, params, ids=new_id, now=now(), dialect=self._dialect)
        self.take_notes(answer.finish.warnings)
        return answer.response

    async def complete(self, chat: dict[str, Any]) -> dict[str, Any]:
        if self.config.upstream_api == "responses":
            return convert_response_to_chat(await self._respond_natively(convert_chat_request(chat).body))
        if isinstance(chat.get("messages"), list):
            chat = {**chat, "messages": drop_our_fields(chat["messages"])}
        body, notes = tidy_chat_request(chat, self._dialect)
        self.take_notes(notes)
        answer, url = await self._engine.post("/chat/completions", self._upstream(self._with_metadata(body)))
        if is_error_body(answer):
            raise build_error(replace(read_body_failure(answer), peer=url))
        return answer

    async def _respond_natively(self, params: dict[str, Any]) -> dict[str, Any]:
        body, notes = build_responses_request(
            params,
            drop_reasoning=self.config.drop_input_reasoning_items,
            merge_extras=self.config.merge_metadata_extras,
        )
        self.take_notes(notes)
        answer, url = await self._engine.post("/responses", self._upstream(body))
        with AttributedTo(url):
            return check_finished_response(self.read_native_answer(answer, params))

    def read_native_answer(self, answer: dict[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the Responses object in the upstream's answer to `params`."""
        return answer

    def _with_metadata(self, chat: dict[str, Any]) -> dict[str, Any]:
        """Convert the metadata of `chat` for OpenAI: strings only, and only if the answer is stored."""
        metadata = chat.pop("metadata", None)
        if metadata:
            problems = ConversionProblems()
            strings = string_metadata(metadata, problems)
            self.take_notes(problems.notes)
            if strings and chat.get("store"):
                chat["metadata"] = strings
        return chat

    def _upstream(self, body: dict[str, Any]) -> dict[str, Any]:
        merged = {**body, **self.config.extra_body, "model": self.config.openai_model}
        return {name: value for name, value in merged.items() if value is not None}

    async def list_models(self) -> dict[str, Any]:
        return models_list(model_entry(self.config.openai_model))

    async def preflight(self) -> dict[str, Any]:
        model = self.config.openai_model
        listed = await self._engine.preflight(model)
        return {"ok": True, "engine": await self._engine.describe(listed, model)}


if __name__ == "__main__":
    OpenAIModel.run_webserver()
