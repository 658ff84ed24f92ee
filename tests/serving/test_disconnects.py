"""A handler ends when its client disconnects, unless the response is complete."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from tests.serving.environments import ScriptedModel


async def test_a_caller_that_goes_away_cancels_the_handler() -> None:
    model = ScriptedModel.standalone(name="policy_model")
    assert isinstance(model, ScriptedModel)
    model.turns = [30.0]
    app = model.setup_webserver()
    body = orjson.dumps({"input": "hi"})
    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    messages.put_nowait({"type": "http.request", "body": body, "more_body": False})
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/responses",
        "raw_path": b"/v1/responses",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    handling = asyncio.create_task(app(scope, messages.get, send))
    await model.started.wait()
    messages.put_nowait({"type": "http.disconnect"})
    await asyncio.wait_for(handling, 30)
    assert model.cancelled == 1
    assert not sent, "the client has disconnected"
    assert (model.middleware.stats.cancelled, model.middleware.stats.in_flight) == (1, 0)


async def test_a_caller_that_has_its_whole_answer_may_go() -> None:
    """As uvicorn has it: the request is over for `receive` when the answer is out."""
    model = ScriptedModel.standalone(name="policy_model")
    answered, went_on = asyncio.Event(), asyncio.Event()

    async def receive() -> dict[str, Any]:
        await answered.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            answered.set()

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.sleep(0.03)  # until its caller is watched
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})
        await asyncio.sleep(0.03)
        went_on.set()

    messages = iter([{"type": "http.request", "body": b"{}", "more_body": False}])

    async def receive_all() -> dict[str, Any]:
        return next(messages, None) or await receive()

    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": []}
    await model.middleware(inner, scope, receive_all, send)
    assert went_on.is_set()
    assert (model.middleware.stats.cancelled, model.middleware.stats.errors) == (0, 0)
