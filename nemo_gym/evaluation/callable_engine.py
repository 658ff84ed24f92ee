"""A Python function in the place of an engine: it answers chat completions over HTTP."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias, cast
from uuid import uuid4

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from nemo_gym.serving.listening import listening_on_loopback

ModelAnswer: TypeAlias = str | Mapping[str, Any]
"""A text, or an assistant message with `content` and `tool_calls`."""
ModelFunction: TypeAlias = Callable[[dict[str, Any]], ModelAnswer | Awaitable[ModelAnswer]]
"""Takes the request for a chat completion: `messages`, `tools`, `temperature` and others."""

MODEL_NAME = "function"


def serve_function(function: ModelFunction) -> AbstractAsyncContextManager[str]:
    """Serve `function` as an engine on a loopback port; the block's value is its URL, without `/v1`.

    A function that is not a coroutine function runs in a thread. An exception fails the rollout with its text.
    """

    async def answer(request: Request) -> JSONResponse:
        body = await request.json()
        try:
            said = await _call(function, body)
        except Exception as error:  # noqa: BLE001 - of the user's function
            return _error(f"{type(error).__name__}: {error}")
        if not isinstance(said, str | Mapping):
            return _error(f"the model function returned {type(said).__name__}, not a text or a message")
        return JSONResponse(_completion(said))

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": MODEL_NAME, "object": "model"}]})

    routes = [
        Route("/v1/chat/completions", answer, methods=["POST"]),
        Route("/v1/models", models),
    ]
    return listening_on_loopback(Starlette(routes=routes))


async def _call(function: ModelFunction, body: dict[str, Any]) -> object:
    if inspect.iscoroutinefunction(function):
        return await function(body)
    said = await asyncio.to_thread(function, body)
    return await said if inspect.isawaitable(said) else said


def _completion(said: ModelAnswer) -> dict[str, Any]:
    answer: Mapping[str, Any] = {"content": said} if isinstance(said, str) else said
    message: dict[str, Any] = {"role": "assistant", "content": None, **answer}
    if message.get("tool_calls"):
        message["tool_calls"] = [_complete_call(call) for call in message["tool_calls"]]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
    }
    return {
        "id": f"chatcmpl-{uuid4().hex}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL_NAME,
        "choices": [choice],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


def _complete_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool call with an id and with its arguments as text, as engines write it."""
    function = dict(cast("Mapping[str, Any]", call.get("function", call)))
    arguments = function.get("arguments", {})
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": call.get("id") or f"call_{uuid4().hex}",
        "type": "function",
        "function": {"name": function["name"], "arguments": text},
    }


def _error(text: str) -> JSONResponse:
    return JSONResponse({"error": {"type": "model_function", "message": text}}, status_code=500)
