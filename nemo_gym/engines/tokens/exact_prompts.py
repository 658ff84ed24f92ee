"""Sends exact token ids to engines that accept them, so that template and tokenizer cannot change a prompt.

The engine's `/openapi.json` lists the routes and fields that decide the method, in this order:

1. `generate`: vLLM's `/inference/v1/generate` with `/v1/chat/completions/render` (`--enable-scale-out`). A turn whose
   rendered prompt extends the recorded ids is an ordinary chat request; otherwise the corrected ids are sent to
   `generate`. `/v1/chat/completions/derender` parses the answer if it exists, else this module: `<tool_call>` blocks in
   the format of Hermes and Qwen, and `<think>` blocks as in any answer.
2. `required_prefix`: NeMo RL's field `required_prefix_token_ids` on chat requests.

The configuration can name a method instead: `required_prefix`, or `history_ids`, where the last assistant message has
`prompt_token_ids` and `generation_token_ids`, from which a trainer's own server repairs the prefix of the prompt.

Exact ids are sent only if a request repeats the conversation verbatim. An agent may change or compact the history, and
then the engine renders it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import orjson

from nemo_gym.engines.engine import EngineAnswer, UpstreamEngine
from nemo_gym.failures import EngineError
from nemo_gym.responses.arguments import is_json_object
from nemo_gym.tokens.ids import IdSequence, encode_ids
from nemo_gym.tokens.splicing import splice

log = logging.getLogger(__name__)

GENERATE_PATH = "/inference/v1/generate"
RENDER_PATH = "/v1/chat/completions/render"
DERENDER_PATH = "/v1/chat/completions/derender"
REQUIRED_PREFIX = "required_prefix_token_ids"

_DETECT_S = 10.0
"""vLLM creates the document on the first request, which takes seconds on a busy machine."""
_TRIES = 3
_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


class TokenInput(StrEnum):
    """The method by which an engine accepts token ids."""

    NONE = "none"
    GENERATE = "generate"
    REQUIRED_PREFIX = "required_prefix"
    HISTORY_IDS = "history_ids"


class TokenFeeder:
    """Sends chat requests with exact prompts."""

    def __init__(self, engine: UpstreamEngine, way: TokenInput | None = None) -> None:
        """`way`: the method, if it is known; the engine is not queried then."""
        self._engine = engine
        self._way = way
        self._asking = asyncio.Lock()
        self._tries = _TRIES
        self._derenders = False

    async def detect(self, seconds: float = _DETECT_S) -> TokenInput:
        """Return the engine's method. It is queried at most three times, by one caller at a time."""
        if self._way is not None:
            return self._way
        async with self._asking:
            if self._way is None:
                self._way = await self._ask(seconds)
            return self._way or TokenInput.NONE

    async def _ask(self, seconds: float) -> TokenInput | None:
        """Query the engine once. Returns None if it did not answer and may be queried again."""
        self._tries -= 1
        try:
            async with asyncio.timeout(seconds):
                answer = await self._engine.call("GET", "/openapi.json", at_root=True)
            described = orjson.loads(answer.reply.body) if answer.reply.ok else {}
        except (EngineError, TimeoutError, orjson.JSONDecodeError) as error:
            log.warning(
                "%s did not return its OpenAPI document, so exact prompts are not available yet: %r",
                self._engine.urls[0],
                error,
            )
            return None if self._tries > 0 else TokenInput.NONE
        self._derenders = DERENDER_PATH in (described.get("paths") or {})
        return _way_in(described)

    async def is_possible(self) -> bool:
        """Return whether the engine accepts token ids."""
        return await self.detect() is not TokenInput.NONE

    async def answer(self, body: Mapping[str, Any], seen: IdSequence) -> EngineAnswer | None:
        """Return the chat completion for a prompt that begins with `seen`; None if an ordinary request is enough.

        Raises the errors of `Engine.post`.
        """
        way = await self.detect()
        if way is TokenInput.REQUIRED_PREFIX:
            return await self._engine.post("/chat/completions", {**body, REQUIRED_PREFIX: seen.ids()})
        if way is TokenInput.HISTORY_IDS:
            return await self._engine.post("/chat/completions", _add_history_ids(body, seen))
        if way is TokenInput.GENERATE:
            return await self._generate(body, seen)
        return None

    # --- Render and generate ------------------------------------------------------------------------------------

    async def _generate(self, body: Mapping[str, Any], seen: IdSequence) -> EngineAnswer | None:
        rendered = (await self._engine.post(RENDER_PATH, body, at_root=True)).body
        if seen.begins(encode_ids(rendered["token_ids"])):
            return None
        prompt = splice(seen.ids(), await self._render_history(body), rendered["token_ids"])
        if prompt is None:
            return None
        request = {**rendered, "token_ids": prompt, "stream": False}
        request["sampling_params"] = _fit_sampling(
            rendered.get("sampling_params") or {}, rendered["token_ids"], prompt
        )
        generated, url = await self._engine.post(GENERATE_PATH, request, at_root=True)
        return EngineAnswer(
            _build_chat(await self._message(body, prompt, generated), body, prompt, generated), url
        )

    async def _render_history(self, body: Mapping[str, Any]) -> list[int]:
        """Render the messages up to the last answer and return their token ids."""
        messages = body["messages"]
        last = max(place for place, message in enumerate(messages) if message.get("role") == "assistant")
        closed = {**body, "messages": messages[: last + 1], "add_generation_prompt": False}
        rendered: list[int] = (await self._engine.post(RENDER_PATH, closed, at_root=True)).body["token_ids"]
        return rendered

    async def _message(
        self, body: Mapping[str, Any], prompt: list[int], generated: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Parse the generated tokens into an assistant message."""
        if self._derenders:
            request = {
                "model": body.get("model"),
                "generate_response": generated,
                "chat_request": body,
                "prompt_tokens": len(prompt),
                "prompt_token_ids": prompt[-16:],  # decoded to find whether a space comes first
            }
            read = (await self._engine.post(DERENDER_PATH, request, at_root=True)).body
            message: dict[str, Any] = read["choices"][0]["message"]
            return message
        choice = generated["choices"][0]
        ids, stop = choice["token_ids"], choice.get("stop_reason")
        if choice.get("finish_reason") == "stop" and not isinstance(stop, str):
            ids = ids[:-1]  # the end-of-turn token is not part of the text
        request = {"model": body.get("model"), "tokens": ids}
        text = str((await self._engine.post("/detokenize", request, at_root=True)).body["prompt"])
        if isinstance(stop, str):
            text = text.rpartition(stop)[0]
        return message_in(text, has_tools=bool(body.get("tools")))


def _add_history_ids(body: Mapping[str, Any], seen: IdSequence) -> dict[str, Any]:
    """Return the request with the ids up to the last answer on that answer's message; readers join both lists."""
    messages = list(body["messages"])
    last = max(place for place, message in enumerate(messages) if message.get("role") == "assistant")
    messages[last] = {**messages[last], "prompt_token_ids": seen.ids(), "generation_token_ids": []}
    return {**body, "messages": messages}


def _way_in(described: Mapping[str, Any]) -> TokenInput:
    """Return the preferred method in an engine's OpenAPI document."""
    paths = described.get("paths") or {}
    if GENERATE_PATH in paths and RENDER_PATH in paths:
        return TokenInput.GENERATE
    schemas = (described.get("components") or {}).get("schemas") or {}
    has_field = any(REQUIRED_PREFIX in (schema.get("properties") or {}) for schema in schemas.values())
    return TokenInput.REQUIRED_PREFIX if has_field else TokenInput.NONE


def message_in(text: str, *, has_tools: bool) -> dict[str, Any]:
    """Convert generated text to an assistant message; tool calls are parsed if the request has tools."""
    calls = [orjson.loads(call) for call in _CALL.findall(text) if is_json_object(call)] if has_tools else []
    named = [call for call in calls if isinstance(call.get("name"), str)]
    if not named or len(named) != len(_CALL.findall(text)):
        return {"role": "assistant", "content": text}
    called = [
        {
            "id": f"call_{place}",
            "type": "function",
            "function": {
                "name": call["name"],
                "arguments": orjson.dumps(call.get("arguments") or {}).decode(),
            },
        }
        for place, call in enumerate(named)
    ]
    return {"role": "assistant", "content": _CALL.sub("", text).strip() or None, "tool_calls": called}


def _fit_sampling(sampling: Mapping[str, Any], rendered: list[int], prompt: list[int]) -> dict[str, Any]:
    """Adapt the sampling parameters to a prompt that may be longer than the rendered one."""
    longer = max(0, len(prompt) - len(rendered))
    limit = sampling.get("max_tokens")
    return {**sampling, "max_tokens": max(1, limit - longer)} if isinstance(limit, int) else dict(sampling)


def _build_chat(
    message: dict[str, Any], body: Mapping[str, Any], prompt: list[int], generated: Mapping[str, Any]
) -> dict[str, Any]:
    """Convert generated tokens to a chat completion."""
    choice = generated["choices"][0]
    ids = choice["token_ids"]
    entries = (choice.get("logprobs") or {}).get("content") or []
    content = [
        {
            "token": f"token_id:{entry.get('token_id', token)}",
            "logprob": entry.get("logprob"),
            "bytes": None,
            "top_logprobs": [],
        }
        for token, entry in zip(ids, entries, strict=False)
    ]
    return {
        "id": f"chatcmpl-{generated.get('request_id')}",
        "object": "chat.completion",
        "created": 0,
        "model": body.get("model"),
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": {"content": content},
                "finish_reason": choice.get("finish_reason"),
                "stop_reason": choice.get("stop_reason"),
                "token_ids": ids,
            }
        ],
        "usage": {
            "prompt_tokens": len(prompt),
            "completion_tokens": len(ids),
            "total_tokens": len(prompt) + len(ids),
        },
        "prompt_token_ids": prompt,
    }
