"""`POST /v1/responses/compact`: the policy summarizes a conversation, and later requests begin with the summary.

OpenAI answers an encrypted item that only its servers can read. Here the item holds the summary itself, so model
servers keep no state: a request with such an item gets it as a message of the user. In the record of a rollout the
summary is a call like any other, and the calls after it are its continuation.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from itertools import repeat
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym import clock
from nemo_gym.responses.turns import join_item_texts
from nemo_gym.serving.json_response import JsonResponse
from nemo_gym.serving.routes import parse_object
from nemo_gym.transport.memory import collect_reply
from nemo_gym.transport.request_body import WholeBody
from nemo_gym.transport.whole_response import send_reply

COMPACT_PATH = "/v1/responses/compact"
_RESPONSES = "/v1/responses"
_KIND = "compaction"
_CARRIED = ("model", "instructions")
_ASK = (
    "Summarize this conversation, so that you can continue the work from the summary alone: the task, what was done and"
    " found, the present state, and the next steps."
)
_LEAD = "Summary of the conversation so far:\n\n"


async def compactions(handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer compactions, and read their items: a layer of a model server (`GymApp.layers`).

    The app serves `COMPACT_PATH` with its handler of `/v1/responses`.
    """
    if not isinstance(receive, WholeBody) or not scope["path"].startswith(_RESPONSES):
        await handler(scope, receive, send)
    elif scope["path"] == COMPACT_PATH:
        await _compact(handler, {**scope, "path": _RESPONSES}, receive, send)
    elif _has_compaction(receive):
        asked = receive.value if receive.value is not None else parse_object(receive.body)
        await handler(scope, _build_body(insert_summaries(asked), receive), send)
    else:
        await handler(scope, receive, send)


def _has_compaction(receive: WholeBody) -> bool:
    if receive.value is None:
        return f'"{_KIND}"'.encode() in receive.body
    items = receive.value.get("input")
    objects = [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
    return _KIND in map(dict.get, objects, repeat("type"))


async def _compact(handler: ASGIApp, scope: Scope, receive: WholeBody, send: Send) -> None:
    asked = insert_summaries(parse_object(receive.body))
    given = asked.get("input") or []
    items = given if isinstance(given, list) else [_message(str(given))]
    carried = {name: asked[name] for name in _CARRIED if name in asked}
    asked = {**carried, "input": [*items, _message(_ASK)]}
    reply = await collect_reply(handler, scope, _build_body(asked, receive))
    if reply.status != HTTPStatus.OK:
        await send_reply(send, reply)
        return
    answer = build_compaction(items, orjson.loads(reply.body))
    await JsonResponse(orjson.dumps(answer))(scope, receive, send)


def insert_summaries(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Responses request with a message of the user in the place of each compaction item."""
    items = asked.get("input")
    if not isinstance(items, list):
        return dict(asked)
    return {**asked, "input": [_read(item) if _is_compaction(item) else item for item in items]}


def build_compaction(items: list[Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's messages and the summary in `answer`, as OpenAI's `response.compaction` object."""
    said = [item for item in answer["output"] if item.get("type") == "message"]
    kept = [item for item in items if isinstance(item, Mapping) and item.get("role") == "user"]
    summary = {"type": _KIND, "id": f"cmp_{clock.hex_id()}", "encrypted_content": join_item_texts(said)}
    return {
        "id": answer["id"],
        "object": "response.compaction",
        "created_at": int(answer["created_at"]),
        "output": [*kept, summary],
        "usage": answer.get("usage"),
    }


def _build_body(asked: dict[str, Any], receive: WholeBody) -> WholeBody:
    return WholeBody(orjson.dumps(asked), receive, asked)


def _is_compaction(item: object) -> bool:
    return isinstance(item, dict) and item.get("type") == _KIND


def _read(item: Mapping[str, Any]) -> dict[str, Any]:
    return _message(_LEAD + str(item.get("encrypted_content") or ""))


def _message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": text}
