"""Upstreams for the tests of model servers: they record requests and return configured answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import orjson

from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.transport import InMemoryTransport, Transport
from responses_api_models.openai_model.app import OpenAIModel
from responses_api_models.vllm_model.app import VLLMModel

App = Callable[[Any, Any, Any], Any]


@dataclass
class Sent:
    """A request as an upstream got it."""

    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class RecordingUpstream:
    """An ASGI app that remembers every request and hands it on to `inner`."""

    def __init__(self, inner: App) -> None:
        self._inner = inner
        self.sent: list[Sent] = []

    @property
    def last(self) -> Sent:
        return self.sent[-1]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.sent.append(Sent(scope["path"], query, headers, orjson.loads(body) if body else None))
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def replayed() -> Any:
            return pending.pop() if pending else await receive()

        await self._inner(scope, replayed, send)


@dataclass
class Canned:
    """An ASGI app that answers with the next of its answers, and with the last one from then on."""

    answers: list[tuple[int, bytes, dict[str, str]]] = field(default_factory=list)
    count: int = 0

    def add(self, status: int, body: Any, **headers: str) -> Canned:
        encoded = body if isinstance(body, bytes) else orjson.dumps(body)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.append((status, encoded, named))
        return self

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status, body, headers = self.answers[min(self.count, len(self.answers) - 1)]
        self.count += 1
        await answer(send, status, body, headers)


async def answer(send: Any, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    sent = {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}
    pairs = [(name.encode(), value.encode()) for name, value in sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


class StrictOpenAI:
    """Refuses, in OpenAI's words, what OpenAI refuses; hands the rest on to `inner`."""

    def __init__(self, inner: App) -> None:
        self._inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        body = orjson.loads(message["body"]) if message.get("body") else {}
        problem = next(refusals(scope["path"], body), None)
        if problem is not None:
            message_text, param = problem
            error = {"message": message_text, "type": "invalid_request_error", "param": param, "code": None}
            await answer(send, 400, orjson.dumps({"error": error}))
            return
        pending = [message]

        async def replayed() -> Any:
            return pending.pop() if pending else await receive()

        await self._inner(scope, replayed, send)


_ITEM_FIELDS: Mapping[str, frozenset[str]] = {
    "message": frozenset({"type", "role", "content", "id", "status", "phase"}),
    "function_call": frozenset({"type", "id", "call_id", "name", "arguments", "status"}),
    "function_call_output": frozenset({"type", "id", "call_id", "output", "status"}),
    "reasoning": frozenset({"type", "id", "summary", "content", "encrypted_content"}),
}


def refusals(path: str, body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return OpenAI's objection to a request: the message and the invalid parameter."""
    for key, value in (body.get("metadata") or {}).items():
        if not isinstance(value, str):
            yield f"Invalid type for 'metadata.{key}': expected a string.", f"metadata.{key}"
    if path.endswith("/chat/completions"):
        if "metadata" in body and not body.get("store"):
            yield "The 'metadata' parameter is only allowed when 'store' is enabled.", "metadata"
        return
    if body.get("store") is not False and body.get("background"):
        yield "Background responses are not expected here.", "background"
    for index, item in enumerate(body["input"] if isinstance(body.get("input"), list) else ()):
        yield from _item_refusals(item, f"input[{index}]", body.get("store") is not False)


def _item_refusals(item: Mapping[str, Any], where: str, is_stored: bool) -> Iterator[tuple[str, str]]:
    kind = item.get("type", "message")
    for key, value in item.items():
        if key not in _ITEM_FIELDS[kind]:
            yield f"Unknown parameter: '{where}.{key}'.", f"{where}.{key}"
        if value is None:
            yield f"Invalid type for '{where}.{key}': got null.", f"{where}.{key}"
    if kind == "reasoning" and not item.get("encrypted_content") and not (is_stored and item.get("id")):
        yield f"Item with id '{item.get('id')}' not found. Items are not persisted.", "input"
    content = item.get("content")
    for part in content if isinstance(content, list) else ():
        for key, value in part.items():
            if value is None:
                yield f"Invalid type for '{where}.content.{key}': got null.", f"{where}.content"


class Mounted:
    """An ASGI app at the base URL `URL` and its root, for servers that reach their engine through memory."""

    ROOT = "http://engine"
    URL = f"{ROOT}/v1"

    def __init__(self, app: App) -> None:
        self.transport = InMemoryTransport({self.URL: self._under_v1(app), self.ROOT: app})

    @staticmethod
    def _under_v1(app: App) -> App:
        async def mounted(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "path": "/v1" + scope["path"]}, receive, send)

        return mounted


def vllm_over(app: App, **options: Any) -> VLLMModel:
    """A vllm_model in front of `app`."""

    class Server(VLLMModel):
        def new_transport(self) -> Transport:
            return Mounted(app).transport

    given = {"base_url": Mounted.URL, "api_key": "key", "model": "mock", "retry_s": 0, **options}
    server = Server.standalone(**given)
    assert isinstance(server, VLLMModel)
    return server


def openai_over(app: App, **options: Any) -> OpenAIModel:
    """An openai_model in front of `app`."""

    class Server(OpenAIModel):
        def new_transport(self) -> Transport:
            return Mounted(app).transport

    given = {"openai_base_url": Mounted.URL, "openai_api_key": "key", "openai_model": "mock", "retry_s": 0}
    server = Server.standalone(**{**given, **options})
    assert isinstance(server, OpenAIModel)
    return server


def engine_of(**options: Any) -> RecordingUpstream:
    """The engine stub, whose requests are remembered."""
    app: Any = MockEngine(EngineOptions(**options)).app
    return RecordingUpstream(app)


def completion(message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A chat completion with `message`; the field `choice` changes its choice."""
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "mock",
        "choices": [choice | fields.pop("choice", {})],
        **fields,
    }
