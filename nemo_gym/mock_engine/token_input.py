"""Token ids as input of a mock engine: vLLM's scale-out routes, or NeMo RL's request field.

    app = TokenInputApp(EngineApp(engine), derenders=False)     # /inference/v1/generate, .../render
    app = TokenInputApp(EngineApp(engine), takes_prefix=True)   # `required_prefix_token_ids` on chat

The policy's input is the conversation that the ids decode to in the mock's own template.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from nemo_gym.mock_engine._chat import ChatSurface
from nemo_gym.mock_engine._template import read_prompt
from nemo_gym.mock_engine._wire import Event, RenderOptions
from nemo_gym.mock_engine.app import EngineApp, GenerationRoute, parse_json
from nemo_gym.mock_engine.conversation import Message
from nemo_gym.mock_engine.delivery import RawAnswer, deliver
from nemo_gym.mock_engine.engine import Generation
from nemo_gym.mock_engine.exchange import Exchange
from nemo_gym.mock_engine.refusals import Refusal
from nemo_gym.mock_engine.request import GenerationRequest, ToolChoice, parse_chat, read_sampling
from nemo_gym.tokens.splicing import splice

RENDER, DERENDER = "/v1/chat/completions/render", "/v1/chat/completions/derender"
GENERATE, CHAT, DESCRIPTION = "/inference/v1/generate", "/v1/chat/completions", "/openapi.json"
PREFIX_FIELD = "required_prefix_token_ids"
_SAMPLING = ("seed", "temperature", "min_tokens", "ignore_eos")


@dataclass
class TokenInputApp:
    """ASGI application of an engine that accepts token ids as input."""

    app: EngineApp
    generates: bool = True
    derenders: bool = True
    takes_prefix: bool = False

    def __post_init__(self) -> None:
        if self.generates:
            self.app.routes[GENERATE] = GenerationRoute("generate", self._parse_generate, GenerateSurface())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path"))
        handlers = {RENDER: self._render, DERENDER: self._derender}
        handler = handlers.get(path) if self.generates else None
        if path == DESCRIPTION:
            await deliver(Exchange(scope, receive, send), RawAnswer(orjson.dumps(self._description())))
        elif path == CHAT and self.takes_prefix:
            await self._answer(scope, receive, send, self._chat)
        elif handler is not None:
            await self._answer(scope, receive, send, handler)
        else:
            await self.app(scope, receive, send)

    async def _answer(self, scope: Any, receive: Any, send: Any, handler: Any) -> None:
        self.app.stats.requests[scope["path"]] += 1
        exchange = Exchange(scope, receive, send)
        try:
            answer = RawAnswer(orjson.dumps(handler(parse_json(await self.app.body(exchange)))))
        except Refusal as refusal:
            answer = RawAnswer(orjson.dumps(refusal.answer.to_wire(is_flat=False)), refusal.answer.status)
        await deliver(exchange, answer)

    def _description(self) -> dict[str, Any]:
        paths = [
            CHAT,
            *([RENDER, GENERATE] if self.generates else []),
            *([DERENDER] if self.derenders else []),
        ]
        fields: dict[str, Any] = {"messages": {}, **({PREFIX_FIELD: {}} if self.takes_prefix else {})}
        schemas = {"ChatCompletionRequest": {"properties": fields}}
        return {"paths": {path: {} for path in paths}, "components": {"schemas": schemas}}

    def _ids(
        self, payload: Mapping[str, Any], messages: Sequence[Message], *, opens_reply: bool
    ) -> list[int]:
        request = parse_chat({**payload, "messages": messages})
        text = self.app.engine.template.prompt(messages, request.tools, opens_reply=opens_reply)
        return self.app.engine.tokenizer.encode(text)

    def _render(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        opens_reply = payload.get("add_generation_prompt") is not False
        sampling = {name: payload[name] for name in _SAMPLING if payload.get(name) is not None}
        sampling["max_tokens"] = payload.get("max_completion_tokens") or 1_000
        ids = self._ids(payload, payload["messages"], opens_reply=opens_reply)
        return {
            "request_id": "r",
            "model": payload.get("model"),
            "token_ids": ids,
            "sampling_params": sampling,
        }

    def _parse_generate(self, payload: Mapping[str, Any]) -> GenerationRequest:
        ids, sampling = payload["token_ids"], payload["sampling_params"]
        messages, tools = read_prompt(self.app.engine.tokenizer.decode(ids))
        request = GenerationRequest(
            messages=messages, tools=tools, prompt_ids=ids, wants_ids=True, wants_logprobs=True
        )
        request.tool_choice = ToolChoice.AUTO if tools else ToolChoice.NONE
        request.max_tokens, request.clamps_max_tokens = sampling["max_tokens"], True
        read_sampling(request, {**sampling, "request_id": payload.get("request_id")})
        return request

    def _derender(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        engine = self.app.engine
        ids = [
            token
            for token in payload["generate_response"]["choices"][0]["token_ids"]
            if token != engine.tokenizer.end_of_turn
        ]
        reply = engine.template.parse(engine.tokenizer.decode(ids))
        calls = [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for n, call in enumerate(reply.tool_calls)
        ]
        message = {"role": "assistant", "content": reply.text or None, "reasoning": reply.reasoning or None}
        return {"choices": [{"index": 0, "message": {**message, **({"tool_calls": calls} if calls else {})}}]}

    def _chat(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return a chat completion whose prompt begins with the given ids, as NeMo RL's server does."""
        messages, prefix = payload["messages"], payload.get(PREFIX_FIELD)
        ids = self._ids(payload, messages, opens_reply=True)
        last = max(
            (place for place, message in enumerate(messages) if message["role"] == "assistant"), default=None
        )
        if prefix and last is not None:
            closed = self._ids(payload, messages[: last + 1], opens_reply=False)
            ids = splice(prefix, closed, ids) or ids
        request = parse_chat(payload)
        request.prompt_ids = ids
        engine, options = self.app.engine, self.app.engine.options
        rendering = RenderOptions(engine.tokenizer, options.reasoning_field, options.chunk_tokens)
        return ChatSurface().render(request, engine.generate(request), rendering)


class GenerateSurface:
    """`/inference/v1/generate`, which has ids instead of text."""

    def render(
        self, request: GenerationRequest, generation: Generation, options: RenderOptions
    ) -> dict[str, Any]:
        choice = generation.choices[0]
        content = [
            {"token_id": token, "logprob": logprob, "top_logprobs": []}
            for token, logprob in zip(choice.ids or (), choice.logprobs or (), strict=True)
        ]
        reason = "stop" if choice.finish_reason == "tool_calls" else choice.finish_reason
        answered = {
            "index": 0,
            "finish_reason": reason,
            "token_ids": choice.ids,
            "logprobs": {"content": content},
        }
        return {"request_id": "r", "choices": [answered]}

    def stream(
        self, request: GenerationRequest, generation: Generation, options: RenderOptions
    ) -> Iterator[Event]:
        yield Event(self.render(request, generation, options), generation.completion_tokens)
