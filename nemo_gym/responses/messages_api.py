"""Converts a finished Responses object to an answer of Anthropic's Messages API, whole or as an event stream.

Agents written for Claude can use any model server this way; `messages_request` converts their requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from nemo_gym.names import RESERVED_PREFIX, STOP_SEQUENCE_KEY
from nemo_gym.responses._answer_fields import build_malformed_error
from nemo_gym.responses._sse import sse_event
from nemo_gym.responses.dialects import TRAINING_FIELDS
from nemo_gym.responses.messages_request import BETWEEN_TEXTS, parse_tool_input

_Json: TypeAlias = dict[str, Any]

# --- Answer -----------------------------------------------------------------------------------------------------


def convert_response_to_message(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Message equivalent to a finished `response`. Raises `EngineError` for an item without an equivalent.

    Fields that the gym adds to the last output item (token fields, `_ng_…`) become fields of the message.
    """
    blocks: list[_Json] = []
    training: _Json = {}
    for index, item in enumerate(response.get("output") or ()):
        blocks += _convert_item(item, index)
        training |= {
            key: value
            for key, value in item.items()
            if key in TRAINING_FIELDS or key.startswith(RESERVED_PREFIX)
        }
    stop_reason, stop_sequence = _convert_stop_reason(response, blocks), response.get(STOP_SEQUENCE_KEY)
    if stop_reason != "end_turn":
        stop_sequence = None
    return {
        "id": f"msg_{str(response.get('id') or '').removeprefix('resp_')}",
        "type": "message",
        "role": "assistant",
        "model": response.get("model") or "",
        "content": blocks,
        "stop_reason": stop_reason if stop_sequence is None else "stop_sequence",
        "stop_sequence": stop_sequence,
        "usage": _convert_usage(response.get("usage")),
        **training,
    }


def _convert_item(item: Mapping[str, Any], index: int) -> list[_Json]:
    kind = item.get("type")
    if kind == "message":
        return [_convert_part(part) for part in item.get("content") or ()]
    if kind == "reasoning":
        return _convert_reasoning(item)
    if kind == "function_call":
        given = parse_tool_input(item["arguments"])
        return [{"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": given}]
    raise build_malformed_error(
        f"output[{index}].type", f"is {kind!r:.80}, which the Messages API can't express"
    )


def _convert_part(part: Mapping[str, Any]) -> _Json:
    return {"type": "text", "text": part["refusal"] if part.get("type") == "refusal" else part["text"]}


def _convert_reasoning(item: Mapping[str, Any]) -> list[_Json]:
    text = BETWEEN_TEXTS.join(part["text"] for part in item.get("content") or item.get("summary") or ())
    signature = item.get("encrypted_content") or ""
    if text:
        return [{"type": "thinking", "thinking": text, "signature": signature}]
    return [{"type": "redacted_thinking", "data": signature}] if signature else []


def _convert_stop_reason(response: Mapping[str, Any], blocks: list[_Json]) -> str:
    if response.get("status") == "incomplete":
        reason = (response.get("incomplete_details") or {}).get("reason")
        return "refusal" if reason == "content_filter" else "max_tokens"
    if any(block["type"] == "tool_use" for block in blocks):
        return "tool_use"
    parts = [part for item in response.get("output") or () for part in item.get("content") or ()]
    return "refusal" if any(part.get("type") == "refusal" for part in parts) else "end_turn"


def _convert_usage(usage: Mapping[str, Any] | None) -> dict[str, int]:
    """Return Anthropic's counts, in which `input_tokens` excludes tokens of the cache."""
    usage = usage or {}
    details = usage.get("input_tokens_details") or {}
    cached, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    return {
        "input_tokens": max(0, (usage.get("input_tokens") or 0) - cached - written),
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.get("output_tokens") or 0,
    }


# --- Stream -----------------------------------------------------------------------------------------------------


def message_events(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Iterate over the events of a finished `message`. Each block is one delta."""
    opening = {
        **message,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**message["usage"], "output_tokens": 0},
    }
    yield {"type": "message_start", "message": opening}
    for index, block in enumerate(message["content"]):
        yield from _block_events(block, index)
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": message["stop_sequence"]}
    yield {"type": "message_delta", "delta": ending, "usage": message["usage"]}
    yield {"type": "message_stop"}


def encode_message_events(message: Mapping[str, Any]) -> Iterator[bytes]:
    """Iterate over the events of a finished `message` as bytes."""
    return map(sse_event, message_events(message))


def _block_events(block: _Json, index: int) -> Iterator[_Json]:
    opened, deltas = _OPENED.get(block["type"], _leave_unopened)(block)
    yield {"type": "content_block_start", "index": index, "content_block": block | opened}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _open_text(block: _Json) -> tuple[_Json, list[_Json]]:
    return {"text": ""}, [{"type": "text_delta", "text": block["text"]}] if block["text"] else []


def _open_thinking(block: _Json) -> tuple[_Json, list[_Json]]:
    deltas = [
        {"type": "thinking_delta", "thinking": block["thinking"]},
        {"type": "signature_delta", "signature": block["signature"]},
    ]
    return {"thinking": "", "signature": ""}, deltas


def _open_tool_use(block: _Json) -> tuple[_Json, list[_Json]]:
    written = json.dumps(block["input"], ensure_ascii=False)
    return {"input": {}}, [{"type": "input_json_delta", "partial_json": written}]


def _leave_unopened(block: _Json) -> tuple[_Json, list[_Json]]:
    return {}, []


_OPENED: Mapping[str, Callable[[_Json], tuple[_Json, list[_Json]]]] = {
    "text": _open_text,
    "thinking": _open_thinking,
    "tool_use": _open_tool_use,
}
"""Blocks with delta events: their fields that are empty at the start, and their deltas."""
