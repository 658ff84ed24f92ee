"""A model served by vLLM, or by an engine with a compatible API; one replica or several.

Agents use the Responses API. Requests to vLLM use Chat Completions, the only API with token ids and the
log-probabilities of the sampling distribution. `is_responses_native` passes Responses requests through.

Sources of the fields of an engine request; later ones override earlier ones:

1. `chat_template_kwargs` of the configuration, key by key;
2. the request, with the extras of its row (`metadata.extra_body`, `metadata.chat_template_kwargs`);
3. `extra_body` of the configuration (its `chat_template_kwargs` key by key);
4. `sampling_overrides` of the configuration;
5. the model's name and, if token ids are enabled, the fields that request them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Body, FastAPI

from nemo_gym import WORKING_DIR
from nemo_gym.engines.engine import AttributedTo, UpstreamEngine
from nemo_gym.engines.engine_model import (
    EngineModel,
    model_entry,
    models_list,
    new_id,
    now,
)
from nemo_gym.engines.policy import (
    PolicyMember,
    PolicyUpdate,
    ServedPolicy,
    change_everywhere,
    reload_weights,
)
from nemo_gym.engines.responses_upstream import (
    build_responses_request,
    check_finished_response,
    drop_our_fields,
)
from nemo_gym.engines.tokens.completions import LIMITS, ChatCompletions, Completion
from nemo_gym.engines.tokens.exact_prompts import TokenFeeder, TokenInput
from nemo_gym.engines.tokens.probe import PROBE_S, EngineProbe, check_trainable
from nemo_gym.engines.tokens.recorder import CallRecorder
from nemo_gym.engines.tokens.texts import fetch_texts
from nemo_gym.engines.tokens.training_requests import build_training_request, strip_token_data
from nemo_gym.failures import EngineError, InputError
from nemo_gym.responses import (
    VLLM,
    Dialect,
    Finish,
    FinishKind,
    InlineThinking,
    ReasoningHistory,
    build_chat_request,
    convert_chat_to_response,
    tidy_chat_request,
)
from nemo_gym.responses.dialects import REASONING_FIELDS
from nemo_gym.tokens.records import RECORD_FIELD, CallRecord, TokenForm
from nemo_gym.transport import Transport
from nemo_gym.transport.context import current_context
from nemo_gym.transport.control import TOKEN_TEXTS
from responses_api_models.vllm_model.config import VLLMModelConfig
from responses_api_models.vllm_model.endpoint_file import EndpointFile
from responses_api_models.vllm_model.request import (
    ends_in_empty_answer,
    prepared,
    rejoin_continued_text,
)

log = logging.getLogger(__name__)

_TEMPLATE = "chat_template_kwargs"
_DETOKENIZE_S = 5.0
_TEXTS_S = 20.0
_REASONING_FIELDS: Mapping[str | None, tuple[str, ...]] = {
    None: REASONING_FIELDS,
    "both": REASONING_FIELDS,
    **{name: (name,) for name in REASONING_FIELDS},
}


class VLLMModel(EngineModel):
    config: VLLMModelConfig

    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        config = self.config
        self._engine = UpstreamEngine(
            config.base_url,
            api_key=config.api_key,
            headers=config.default_headers,
            transport=self.new_transport(),
            budget=config.retry_budget(),
            locate=self.new_locator(),
            max_concurrent=config.max_concurrent_requests,
        )
        self._dialect = self.new_dialect()
        self._policy = ServedPolicy()
        self._pausing = self._policy.build_pausing(self, self._engine)
        limit_field = self._dialect.max_tokens_field
        every = self._merged({}, limit_field)
        self._probe = EngineProbe(self._engine, limit_field, every)
        self._calls = self._new_recorder() if config.return_token_id_information else None
        way = TokenInput(config.exact_prompts) if isinstance(config.exact_prompts, str) else None
        self._feeder = (
            TokenFeeder(self._engine, way, every=every, limit_field=limit_field)
            if config.exact_prompts
            else None
        )
        self._completions = ChatCompletions(
            self._engine,
            self._policy,
            model=config.model,
            limit_field=limit_field,
            min_new_tokens=config.min_new_tokens,
            hides_overflow=not config.propagate_context_overflow_errors,
            recorder=self._calls,
            feeder=self._feeder,
            take_notes=self.take_notes,
            on_abort=config.on_abort,
        )

    def _new_recorder(self) -> CallRecorder:
        return CallRecorder(
            TokenForm(self.config.token_fields),
            self._dialect,
            room_mb=self.config.linkage_room_mb,
            text_of=self._text_of,
            logprobs_mode=lambda: self._probe.logprobs_mode,
        )

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/policy_version")(self.update_policy)
        app.get("/policy_version")(self._policy.show)
        self._pausing.add_routes(app)
        app.post(TOKEN_TEXTS)(self.token_texts)
        return app

    async def on_stop(self) -> None:
        self._probe.stop()
        await super().on_stop()

    def new_locator(self) -> Callable[[], str | None] | None:
        """Return a function that returns the engine's current base URL; None if it does not move."""
        config = self.config
        if config.endpoint_file is None:
            return None
        return EndpointFile(
            WORKING_DIR / config.endpoint_file,
            check_interval_s=config.endpoint_check_interval_s,
            stale_grace_s=config.endpoint_stale_grace_s,
        ).url

    def new_transport(self) -> Transport | None:
        """Return the transport to the engine; None for HTTP."""
        return None

    def new_dialect(self) -> Dialect:
        config = self.config
        thinking = InlineThinking.LEADING if config.uses_reasoning_parser else InlineThinking.LITERAL
        keeps_text = config.preserve_reasoning_in_assistant_content
        return replace(
            VLLM,
            reasoning_history=ReasoningHistory.INLINE if keeps_text else ReasoningHistory.FIELDS,
            reasoning_fields=_REASONING_FIELDS[config.reasoning_field],
            replace_developer_role_with_system=config.replace_developer_role_with_system,
            drop_input_reasoning_items=not config.uses_interleaved_reasoning,
            inline_thinking=InlineThinking.OPENED if config.reasoning_opened_by_template else thinking,
        )

    # --- Both APIs ----------------------------------------------------------------------------------------------

    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.config.is_responses_native:
            return await self._respond_natively(params)
        if isinstance(params.get("input"), list):
            params = {**params, "input": drop_our_fields(params["input"])}
        known = self._calls.find_beginning() if self._calls is not None else None
        body, notes = build_chat_request(params, self._dialect, known)
        self.take_notes(notes)
        completion = await self._complete(body)
        with AttributedTo(completion.url):
            response, finish = convert_chat_to_response(
                completion.chat,
                params,
                ids=new_id,
                now=now(),
                dialect=self._dialect,
                max_tokens=completion.max_tokens,
            )
        self.take_notes(finish.warnings)
        await self._completions.record(completion, finish, response["output"][-1])
        return response

    async def complete(self, chat: dict[str, Any]) -> dict[str, Any]:
        if isinstance(chat.get("messages"), list):
            chat = {**chat, "messages": drop_our_fields(chat["messages"])}
        if not self.config.forward_request_chat_template_kwargs and chat.get(_TEMPLATE):
            chat = {name: value for name, value in chat.items() if name != _TEMPLATE}
            self.take_notes(["dropped_template_arguments"])
        body, notes = tidy_chat_request(chat, self._dialect)
        self.take_notes(notes)
        completion = await self._complete(body, restores_reasoning=self.config.restores_reasoning)
        finish = self._finish_of(completion, body)
        answer = completion.chat
        choice = answer["choices"][0]
        if finish.kind is FinishKind.TRUNCATED:
            choice["finish_reason"] = "length"  # some engines report another reason
        await self._completions.record(completion, finish, choice["message"])
        if self._calls is not None:
            self._calls.remember_reasoning(completion.body, choice["message"])
            strip_token_data(answer, body)
        return answer

    async def _respond_natively(self, params: dict[str, Any]) -> dict[str, Any]:
        body, notes = build_responses_request(
            params, drop_reasoning=not self.config.uses_interleaved_reasoning, merge_extras=True
        )
        self.take_notes(notes)
        if _TEMPLATE in body:
            raise InputError(
                "vLLM's own /v1/responses does not support chat_template_kwargs",
                code="not_convertible",
                param="metadata.chat_template_kwargs",
                remedy="Set is_responses_native to false.",
            )
        # An engine keeps stored answers in memory until it stops.
        request = {"store": False, **self._merged(body, "max_output_tokens")}
        await self._policy.gate.wait()
        began_with = self._policy.version
        answer, url = await self._policy.work(self._engine.post("/responses", request))
        began_with = self._policy.settle_version(began_with)
        with AttributedTo(url):
            response = check_finished_response(answer)
        if began_with is not None and response["output"]:
            record = CallRecord(policy_version=began_with)
            response["output"][-1][RECORD_FIELD] = record.to_wire(TokenForm.PACKED)
        return response

    def _finish_of(self, completion: Completion, asked: Mapping[str, Any]) -> Finish:
        """Return the finish of a chat answer. Raises the errors of its conversion to a Responses object."""
        params = {"tools": asked.get("tools")}
        with AttributedTo(completion.url):
            read = convert_chat_to_response(
                completion.chat,
                params,
                ids=new_id,
                now=0.0,
                dialect=self._dialect,
                max_tokens=completion.max_tokens,
            )
        self.take_notes(read.finish.warnings)
        return read.finish

    # --- The engine's request -----------------------------------------------------------------------------------

    async def _complete(self, chat: dict[str, Any], *, restores_reasoning: bool = False) -> Completion:
        body = self._merged(await self.prepare_chat(chat), self._dialect.max_tokens_field)
        if self._calls is not None:
            self._calls.drop_ended()
            body = asked = self._calls.restore_sampled_turns(build_training_request(body))
            if restores_reasoning and not self._dialect.drop_input_reasoning_items:
                body = self._calls.restore_reasoning(body)
                self.take_notes(["restored_reasoning"] if body is not asked else ())
        if not self.config.sequential_reasoning_allowed and ends_in_empty_answer(body):
            completion = self._completions.build_empty(body, "content_filter", self._policy.version)
        else:
            completion = await self._completions.answer(body)
        rejoin_continued_text(completion.body, completion.chat)
        self._note_reasoning_field(completion.chat)
        return completion

    async def prepare_chat(self, chat: dict[str, Any]) -> dict[str, Any]:
        """Return the chat request with the changes that keys of the configuration ask for."""
        context = current_context.get()
        return await prepared(chat, self.config, context.session if context is not None else None)

    def _note_reasoning_field(self, chat: Mapping[str, Any]) -> None:
        """Learn the engine's field for reasoning from an answer, and use only this field from then on."""
        if self.config.reasoning_field is not None or self._dialect.reasoning_fields is not REASONING_FIELDS:
            return
        choices = chat.get("choices") or [{}]
        message = choices[0].get("message") if isinstance(choices[0], Mapping) else None
        named = (
            tuple(name for name in REASONING_FIELDS if message.get(name))
            if isinstance(message, Mapping)
            else ()
        )
        if len(named) == 1:
            self._dialect = replace(self._dialect, reasoning_fields=named)

    def _merged(self, body: Mapping[str, Any], limit_field: str) -> dict[str, Any]:
        """Merge the configuration into `body`, in the order of the module docstring."""
        config = self.config
        merged = dict(body)
        for layer in (config.extra_body, config.sampling_overrides):
            for name, value in layer.items():
                merged[limit_field if name in LIMITS else name] = value
        template = {
            **(config.chat_template_kwargs or {}),
            **(body.get(_TEMPLATE) or {}),
            **(config.extra_body.get(_TEMPLATE) or {}),
        }
        if template:
            merged[_TEMPLATE] = template
        merged["model"] = config.model
        return merged

    # --- Tokens and the policy ----------------------------------------------------------------------------------

    async def _text_of(self, ids: Sequence[int]) -> str | None:
        request = {"model": self.config.model, "tokens": list(ids)}
        try:
            async with asyncio.timeout(_DETOKENIZE_S):
                text = (await self._engine.post("/detokenize", request, at_root=True)).body.get("prompt")
        except (EngineError, TimeoutError):
            self.take_notes(["not_detokenized"])
            return None
        return text if isinstance(text, str) else None

    async def token_texts(self, ids: Annotated[list[int], Body(embed=True)]) -> dict[int, str]:
        """Return the texts of those ids whose texts are exact and known in time."""
        return await fetch_texts(self._engine, self.config.model, ids, seconds=_TEXTS_S)

    async def update_policy(self, update: PolicyUpdate) -> dict[str, Any]:
        """Switch to another version of the policy. Raises `EngineError` if the weights cannot be loaded."""
        before = self._policy.version
        if update.reload_weights:
            await self.load_weights(everywhere=update.everywhere)
        if update.everywhere and self.server_client.has_replicas(self.config.name):
            dropped = await change_everywhere(self.server_client, self.config.name, update)
        else:
            dropped = self._policy.change(update.version, drop_in_flight=update.drop_in_flight)
        return {"version": update.version, "previous": before, "dropped": dropped}

    async def load_weights(self, *, everywhere: bool) -> None:
        """Reload the weights in the engines, which the processes of this server share. Raises `EngineError`."""
        await reload_weights(self._engine)

    async def prepare_to_join(self) -> None:
        """Do what must be done before this process takes the version of the others. Raises `EngineError`."""

    def background_tasks(self) -> Iterable[Coroutine[Any, Any, None]]:
        member = PolicyMember(self.server_client, self.config.name, self._policy, self.prepare_to_join)
        return (*super().background_tasks(), member.join())

    # --- Models and preflight ----------------------------------------------------------------------------------

    async def list_models(self) -> dict[str, Any]:
        listed = {entry.get("id"): entry for entry in await self._engine.models()}
        return models_list(model_entry(self.config.model, listed.get(self.config.model)))

    async def count_tokens(self, params: dict[str, Any]) -> int:
        body, _ = build_chat_request(params, self._dialect)
        merged = self._merged(body, self._dialect.max_tokens_field)
        request = {name: merged[name] for name in ("model", "messages", "tools", _TEMPLATE) if name in merged}
        counted: int = (await self._engine.post("/tokenize", request, at_root=True)).body["count"]
        return counted

    async def preflight(self) -> dict[str, Any]:
        listed = await self._engine.preflight(self.config.model)
        lengths = [entry.get("max_model_len") for entry in listed if entry.get("id") == self.config.model]
        known = [length for length in lengths if type(length) is int]
        if known:
            self._completions.context_length = min(known)
        found = {"ok": True, "engine": await self._engine.describe(listed, self.config.model)}
        if self._calls is None:
            return found
        return {**found, "training": await self._about_training()}

    async def _about_training(self) -> dict[str, Any]:
        """Return the findings about the engine's tokens. Raises `EngineError` if they are unusable for training."""
        detecting = self._feeder.detect(PROBE_S) if self._feeder is not None else _no_token_input()
        findings, way = await asyncio.gather(self._probe.findings(), detecting)
        if findings is None:
            return {"probed": False}
        pinned = {**self.config.extra_body, **self.config.sampling_overrides}
        check_trainable(findings, pinned, self._engine.urls[0])
        about = {"probed": True, **findings.to_json(), "token_input": way}
        return {**about, "context_length": self._completions.context_length}


async def _no_token_input() -> TokenInput:
    return TokenInput.NONE


if __name__ == "__main__":
    VLLMModel.run_webserver()
