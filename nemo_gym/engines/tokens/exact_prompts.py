"""Sends exact token ids to engines that accept them, so that template and tokenizer cannot change a prompt.

The engine's `/openapi.json` lists the routes and fields that decide the method, in this order:

1. `generate`: vLLM's `/inference/v1/generate` with `/v1/chat/completions/render` (`--enable-scale-out`). A turn whose
   rendered prompt extends the recorded ids is an ordinary chat request; otherwise the corrected ids are sent to
   `generate`. `/v1/chat/completions/derender` parses the answer if it exists, else this module: `<tool_call>` blocks in
   the format of Hermes and Qwen, and `<think>` blocks as in any answer.
2. `required_prefix`: NeMo RL's field `required_prefix_token_ids` on chat requests.
3. `history_ids`: the last assistant message has `prompt_token_ids` and `generation_token_ids`, from which the servers
   of verl and NeMo RL repair the prefix of the prompt. No document mentions it, so after the first drift the engine is
   asked once, with ids that no template renders.

The configuration can name the second or the third method instead.

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
from nemo_gym.engines.tokens.training_requests import build_training_request
from nemo_gym.failures import EngineError, GymError
from nemo_gym.responses.arguments import is_json_object
from nemo_gym.tokens.capture import capture_chat
from nemo_gym.tokens.ids import IdSequence, encode_ids
from nemo_gym.tokens.splicing import splice
from nemo_gym.transport.context import current_context

__all__ = ["TokenFeeder", "TokenInput"]

log = logging.getLogger(__name__)

GENERATE_PATH = "/inference/v1/generate"
RENDER_PATH = "/v1/chat/completions/render"
DERENDER_PATH = "/v1/chat/completions/derender"
REQUIRED_PREFIX = "required_prefix_token_ids"

_DETECT_S = 10.0
"""vLLM creates the document on the first request, which takes seconds on a busy machine."""
_TRIES = 3
_CLAIMED_IDS = (9, 8, 7, 6, 5, 4, 3, 9, 8, 7, 6, 5, 4, 3)
"""Ids of every vocabulary, in an order that no template renders."""
_CALL = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


class TokenInput(StrEnum):
    """The method by which an engine accepts token ids."""

    NONE = "none"
    GENERATE = "generate"
    REQUIRED_PREFIX = "required_prefix"
    HISTORY_IDS = "history_ids"


class TokenFeeder:
    """Sends chat requests with exact prompts."""

    def __init__(
        self,
        engine: UpstreamEngine,
        way: TokenInput | None = None,
        *,
        every: Mapping[str, Any] | None = None,
        limit_field: str = "max_completion_tokens",
    ) -> None:
        """`way`: the method, if it is known; the engine is not queried then.

        `every`: fields of all chat requests, such as the model's name; `limit_field`: the field with the token limit.
        """
        self._engine = engine
        self._way = way
        self._may_read_history = way is None and every is not None
        self._has_drifted = False
        self._every = {**(every or {}), limit_field: 1, "seed": 0}
        self._asking = asyncio.Lock()
        self._tries = _TRIES
        self.derenders = False
        """Whether the engine parses ids into messages; False until `detect`."""

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
        self.derenders = DERENDER_PATH in (described.get("paths") or {})
        return _way_in(described)

    async def is_possible(self) -> bool:
        """Return whether the engine accepts token ids, or may accept them in the history."""
        return await self.detect() is not TokenInput.NONE or self._asks_for_history

    def note_drift(self) -> None:
        """Take note that the engine has rendered another prompt than the ids of its conversation."""
        self._has_drifted = True

    @property
    def _asks_for_history(self) -> bool:
        return self._has_drifted and self._may_read_history

    async def _settle_way(self, seen: IdSequence) -> TokenInput:
        """Return the method for a turn that continues a conversation. Ids in the history are tried at most once."""
        way = await self.detect()
        if way is not TokenInput.NONE or not self._asks_for_history:
            return way
        async with self._asking:
            if self._asks_for_history:
                self._may_read_history = False
                if await self._reads_history(seen.ids()[-1]):
                    self._way = TokenInput.HISTORY_IDS
        return self._way or TokenInput.NONE

    async def _reads_history(self, end: int) -> bool:
        """Return whether a prompt begins with the ids that the history claims; `end` is the token that ends a turn."""
        claimed = [*_CLAIMED_IDS, end]
        request = _build_history_request(self._every, claimed)
        token = current_context.set(None)  # without the session and the deadline of the turn
        try:
            async with asyncio.timeout(_DETECT_S):
                chat = (await self._engine.post("/chat/completions", request)).body
            return capture_chat(chat).prompt_ids[: len(claimed)] == claimed
        except (GymError, TimeoutError, LookupError, TypeError, AttributeError) as error:
            log.info("%s does not read token ids of the history: %r", self._engine.urls[0], error)
            return False
        finally:
            current_context.reset(token)

    async def answer(self, body: Mapping[str, Any], seen: IdSequence) -> EngineAnswer | None:
        """Return the chat completion for a prompt that begins with `seen`; None if an ordinary request is enough.

        Raises the errors of `Engine.post`.
        """
        way = await self._settle_way(seen)
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
        request["sampling_params"] = _shorten_limit(
            rendered.get("sampling_params") or {}, len(prompt) - len(rendered["token_ids"])
        )
        generated, url = await self._engine.post(GENERATE_PATH, request, at_root=True)
        return EngineAnswer(
            build_chat(await self.read_message(body, prompt, generated), body, prompt, generated), url
        )

    async def generate_more(
        self, body: Mapping[str, Any], prompt: list[int], sampled: list[int]
    ) -> dict[str, Any]:
        """Return the rest of an answer that begins with `sampled`, as a choice of the route that generates.

        Raises the errors of `UpstreamEngine.post`.
        """
        rendered = (await self._engine.post(RENDER_PATH, body, at_root=True)).body
        sampling = _shorten_limit(
            rendered.get("sampling_params") or {}, len(prompt) - len(rendered["token_ids"])
        )
        fitted = fit_sampling(sampling, len(sampled))
        if fitted is None:
            return {"finish_reason": "length"}
        request = {
            **rendered,
            "token_ids": prompt + sampled,
            "stream": False,
            "sampling_params": fitted,
        }
        choice: dict[str, Any] = (await self._engine.post(GENERATE_PATH, request, at_root=True)).body[
            "choices"
        ][0]
        return choice

    async def _render_history(self, body: Mapping[str, Any]) -> list[int]:
        """Render the messages up to the last answer and return their token ids."""
        messages = body["messages"]
        last = max(place for place, message in enumerate(messages) if message.get("role") == "assistant")
        closed = {**body, "messages": messages[: last + 1], "add_generation_prompt": False}
        rendered: list[int] = (await self._engine.post(RENDER_PATH, closed, at_root=True)).body["token_ids"]
        return rendered

    async def read_message(
        self, body: Mapping[str, Any], prompt: list[int], generated: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Parse the generated tokens into an assistant message."""
        if self.derenders:
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


def _build_history_request(every: Mapping[str, Any], claimed: list[int]) -> dict[str, Any]:
    """Return a request whose history claims these token ids."""
    messages = [
        {"role": "user", "content": "Say something."},
        {
            "role": "assistant",
            "content": "Something.",
            "prompt_token_ids": claimed,
            "generation_token_ids": [],
        },
        {"role": "user", "content": "Go on."},
    ]
    return build_training_request({**every, "messages": messages})


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


def _shorten_limit(sampling: Mapping[str, Any], longer: int) -> dict[str, Any]:
    """Lower the limit of tokens for a prompt that is longer than the rendered one."""
    limit = sampling.get("max_tokens")
    return (
        {**sampling, "max_tokens": max(1, limit - max(0, longer))}
        if isinstance(limit, int)
        else dict(sampling)
    )


def fit_sampling(sampling: Mapping[str, Any], sampled: int) -> dict[str, Any] | None:
    """Return sampling parameters for the rest of an answer that has so many tokens; None if it may have no more.

    A seed gives each part another stream of random numbers: with the same one, its draws would repeat.
    """
    limit, least, seed = (sampling.get(name) for name in ("max_tokens", "min_tokens", "seed"))
    if isinstance(limit, int) and limit <= sampled:
        return None
    fitted = dict(sampling)
    if isinstance(limit, int):
        fitted["max_tokens"] = limit - sampled
    if least:
        fitted["min_tokens"] = max(0, least - sampled)
    if seed is not None:
        fitted["seed"] = seed + sampled
    return fitted


def build_chat(
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
