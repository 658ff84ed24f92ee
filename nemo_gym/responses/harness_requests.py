"""Requests of agents that nobody adapted, made acceptable to the strict conversions.

The conversions refuse what they cannot express, which helps the author of an environment. A coding CLI or a product
sends whatever its provider understands, and cannot be changed. Here each field without an equivalent is mapped, or
dropped with a note, by the tables below. What stays refused changes the meaning of a request: `previous_response_id`,
an answer that the caller has begun, a content block that the model cannot read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, TypeAlias

from nemo_gym.responses._chat_messages import ITEM_FIELDS, guess_kind
from nemo_gym.responses._chat_request import RESPONSES_FIELDS
from nemo_gym.responses._request_fields import KNOWN_INCLUDES
from nemo_gym.responses.harness_tools import HarnessTools
from nemo_gym.responses.messages_request import MESSAGES_FIELDS, TOOL_FIELDS
from nemo_gym.responses.problems import Converted, Note

_Json: TypeAlias = dict[str, Any]

UNKNOWN = "the gym does not know it"

DROPPED_FROM_RESPONSES: Mapping[str, str] = {
    "background_options": "answers are given in the foreground",
    "client_metadata": "it describes the client",
    "context_management": "conversations are never shortened by the gym",
    "max_tool_calls": "it bounds hosted tools, which are left out",
    "truncation": "an overlong conversation is an error, and is never shortened",
}
"""Fields of Responses requests without effect on an answer, and the reasons."""

DROPPED_FROM_MESSAGES: Mapping[str, str] = {
    "container": "it belongs to hosted tools, which are left out",
    "context_management": "conversations are never shortened by the gym",
    "inference_geo": "the engine has one place",
    "mcp_servers": "the provider would call them; agents call tools themselves",
    "speed": "the engine has one speed",
}
"""Fields of Messages requests without effect on an answer, and the reasons."""

NONCE_PREFIX = "x-anthropic-billing-header"
"""A system block that begins so holds a number that changes with every request, which would break every prefix."""

_DROPPED_INCLUDES = "the engine has no such part of an answer"


class ToleratedResponse(NamedTuple):
    """A Responses request that the strict conversion accepts."""

    body: _Json
    notes: tuple[Note, ...]
    tools: HarnessTools
    """Gives the calls of the answer the form of the declared tools."""


def reduce_response_request(params: Mapping[str, Any]) -> ToleratedResponse:
    """Return the body of a Responses request without what only its provider understands."""
    tools = HarnessTools()
    body = _drop_fields(params, DROPPED_FROM_RESPONSES, RESPONSES_FIELDS, tools.notes)
    if isinstance(body.get("tools"), list):
        body["tools"] = [keep_known_fields(tool) for tool in tools.convert_tools(body["tools"])]
    if "tool_choice" in body:
        body["tool_choice"] = tools.convert_choice(body["tool_choice"]) if body.get("tools") else "auto"
    if isinstance(body.get("input"), list):
        body["input"] = [keep_known_fields(item) for item in tools.convert_items(body["input"])]
    if isinstance(body.get("include"), list):
        body["include"] = _keep_known_includes(body["include"], tools.notes)
    return ToleratedResponse(body, tuple(tools.notes), tools)


def sanitize_streaming_responses_body(
    body: Mapping[str, Any],
) -> tuple[dict[str, Any], dict[str, tuple[str, str]]]:
    """Return the body of a streaming request as one of a whole answer, and the namespaces of its functions.

    The ecosystem's name for `reduce_response_request`, for model servers that stream by themselves.
    """
    tolerated = reduce_response_request(body)
    kept = {key: value for key, value in tolerated.body.items() if key not in ("stream", "stream_options")}
    return kept, tolerated.tools.namespaces


def reduce_message_request(message: Mapping[str, Any]) -> Converted:
    """Return the body of a Messages request without what only its provider understands."""
    notes: list[Note] = []
    body = _drop_fields(message, DROPPED_FROM_MESSAGES, MESSAGES_FIELDS, notes)
    if isinstance(body.get("system"), list):
        body["system"] = _drop_nonce(body["system"], notes)
    if isinstance(body.get("tools"), list):
        body["tools"] = list(_own_tools(body["tools"], notes))
    return Converted(body, tuple(notes))


def _drop_fields(
    body: Mapping[str, Any], dropped: Mapping[str, str], known: AbstractSet[str], notes: list[Note]
) -> _Json:
    kept = {}
    for name, value in body.items():
        if name in dropped or name not in known:
            if value is not None:
                notes.append(Note("dropped_field", name, dropped.get(name, UNKNOWN)))
        else:
            kept[name] = value
    return kept


def keep_known_fields(item: Any) -> Any:
    """Return a tool or an item without fields that a model does not read, such as a provider's `phase`."""
    known = ITEM_FIELDS.get(item.get("type") or guess_kind(item) or "") if isinstance(item, Mapping) else None
    return {key: value for key, value in item.items() if key in known} if known is not None else item


def _keep_known_includes(include: list[Any], notes: list[Note]) -> list[Any]:
    for value in include:
        if value not in KNOWN_INCLUDES:
            notes.append(Note("dropped_field", f"include.{value}", _DROPPED_INCLUDES))
    return [value for value in include if value in KNOWN_INCLUDES]


def _drop_nonce(system: list[Any], notes: list[Note]) -> list[Any]:
    kept = [block for block in system if not _is_nonce(block)]
    if len(kept) < len(system):
        notes.append(Note("dropped_nonce", "system", "a block that changes with every request"))
    return kept


def _is_nonce(block: Any) -> bool:
    return isinstance(block, Mapping) and str(block.get("text")).startswith(NONCE_PREFIX)


def _own_tools(tools: Iterable[Any], notes: list[Note]) -> Iterable[Any]:
    for index, tool in enumerate(tools):
        kind = tool.get("type") or "custom" if isinstance(tool, Mapping) else None
        if kind not in ("custom", None):
            notes.append(
                Note("dropped_hosted_tool", f"tools[{index}]", f"`{kind}` belongs to another provider")
            )
        elif isinstance(tool, Mapping):
            yield {key: value for key, value in tool.items() if key in TOOL_FIELDS}
        else:
            yield tool
