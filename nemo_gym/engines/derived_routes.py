"""Routes that follow from an author's `responses` and `chat_completions`: streams of events, and Anthropic's Messages.

A stream is made of the finished answer. Requests of agents that nobody adapted (below `/ng-rollout/<id>`) are read
tolerantly, as at the gym's own model servers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import orjson
from fastapi import Request
from fastapi import Response as HttpResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.engines.capture import note_streamed_answer
from nemo_gym.responses import sse_of_chat, sse_of_response
from nemo_gym.responses.messages_api import message_of_response, sse_of_message
from nemo_gym.responses.messages_request import responses_params_of_message
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.routes import parse_object
from nemo_gym.transport.calls import Reply
from nemo_gym.transport.memory import ReplyCollector
from nemo_gym.transport.request_body import WholeBody

_RESPONSES, _CHAT = "/v1/responses", "/v1/chat/completions"


def add_derived_routes(app: GymApp) -> None:
    """Add `POST /v1/messages`, and `stream: true` of the other two routes."""
    app.layers.append(lambda handler: partial(_answer_streams, handler))
    app.post("/v1/messages")(_messages)


async def _answer_streams(handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    if (
        scope["path"] not in (_RESPONSES, _CHAT)
        or not isinstance(receive, WholeBody)
        or b'"stream' not in receive.body
    ):
        await handler(scope, receive, send)
        return
    asked = parse_object(receive.body)
    streams, options = asked.pop("stream", None), asked.pop("stream_options", None)
    reply = await _reply_of(handler, scope, receive, asked)
    if not streams or reply.status != 200:
        await HttpResponse(reply.body, reply.status, dict(reply.headers))(scope, receive, send)
        return
    answer = orjson.loads(reply.body)
    if scope["path"] == _RESPONSES:
        events = sse_of_response(answer)
    else:
        events = sse_of_chat(answer, include_usage=bool((options or {}).get("include_usage")))
    await event_stream(Request(scope), answer, events)(scope, receive, send)


async def _messages(request: Request) -> HttpResponse:
    asked = parse_object(await request.body())
    streams = asked.pop("stream", None)
    path = {"path": _RESPONSES, "raw_path": _RESPONSES.encode()}
    scope = {**request.scope, **path}
    app: GymApp = request.app
    reply = await _reply_of(app.handler_of(scope), scope, request.receive, responses_params_of_message(asked))
    if reply.status != 200:
        return HttpResponse(reply.body, reply.status, dict(reply.headers))
    message = message_of_response(orjson.loads(reply.body))
    return (
        event_stream(request, message, sse_of_message(message))
        if streams
        else JsonResponse(orjson.dumps(message))
    )


async def _reply_of(handler: ASGIApp, scope: Scope, receive: Receive, body: Mapping[str, Any]) -> Reply:
    collector = ReplyCollector()
    await handler(scope, WholeBody(orjson.dumps(body), receive), collector)
    assert collector.reply is not None
    return collector.reply


def event_stream(request: Request, answer: Mapping[str, Any], events: Iterable[bytes]) -> HttpResponse:
    """Return the response with the events of a finished answer."""
    note_streamed_answer(request, answer)
    headers = {"cache-control": "no-cache"}
    return HttpResponse(b"".join(events), media_type="text/event-stream", headers=headers)
