"""Converts a finished Responses object to the event stream of the Responses API.

The gym requests whole answers from engines, so that incomplete answers are never used. A client that requests a
stream gets the equivalent events; each text is one delta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from nemo_gym.responses._sse import sse_event

_Json: TypeAlias = dict[str, Any]
_Events: TypeAlias = Iterator[_Json]
_ItemStreamer: TypeAlias = Callable[[Mapping[str, Any], _Json], _Events]

_LAST_EVENT: Mapping[str, str] = {
    "completed": "response.completed",
    "incomplete": "response.incomplete",
    "failed": "response.failed",
}


def response_events(response: Mapping[str, Any]) -> _Events:
    """Iterate over the events of a finished `response`, numbered from 0."""
    for number, event in enumerate(_events(response)):
        event["sequence_number"] = number
        yield event


def encode_response_events(response: Mapping[str, Any]) -> Iterator[bytes]:
    """Iterate over the events of a finished `response` as bytes."""
    return map(sse_event, response_events(response))


def _events(response: Mapping[str, Any]) -> _Events:
    opening = {
        **response,
        "status": "in_progress",
        "output": [],
        "usage": None,
        "error": None,
        "incomplete_details": None,
    }
    yield {"type": "response.created", "response": opening}
    yield {"type": "response.in_progress", "response": opening}
    for index, item in enumerate(response.get("output") or ()):
        yield from _item_events(item, index)
    yield {"type": _LAST_EVENT[response.get("status") or "completed"], "response": response}


def _item_events(item: Mapping[str, Any], index: int) -> _Events:
    opened, streamer = _STREAMED.get(str(item.get("type")), (None, _no_events))
    # Items that a model does not write (a tool's output in an episode's record) have no delta events.
    begun = item if opened is None else {**item, **opened, "status": "in_progress"}
    yield {"type": "response.output_item.added", "output_index": index, "item": begun}
    yield from streamer(item, {"item_id": item.get("id") or "", "output_index": index})
    yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _no_events(item: Mapping[str, Any], at: _Json) -> _Events:
    return iter(())


def _message_events(item: Mapping[str, Any], at: _Json) -> _Events:
    content = item.get("content")
    for index, part in enumerate(content if isinstance(content, list) else ()):
        where = {**at, "content_index": index}
        if part.get("type") == "output_text":
            yield from _text_events(part, where)
        elif part.get("type") == "refusal":
            yield from _part_events(part, where, "content_part", "refusal", key="refusal")


def _text_events(part: Mapping[str, Any], where: _Json) -> _Events:
    logprobs = part.get("logprobs") or []
    empty = {"type": "output_text", "text": "", "annotations": []}
    yield {"type": "response.content_part.added", **where, "part": empty}
    if part["text"]:
        yield {"type": "response.output_text.delta", **where, "delta": part["text"], "logprobs": logprobs}
    for index, annotation in enumerate(part.get("annotations") or ()):
        added = {"annotation_index": index, "annotation": annotation}
        yield {"type": "response.output_text.annotation.added", **where, **added}
    yield {"type": "response.output_text.done", **where, "text": part["text"], "logprobs": logprobs}
    yield {"type": "response.content_part.done", **where, "part": part}


def _build_reasoning_events(item: Mapping[str, Any], at: _Json) -> _Events:
    for index, part in enumerate(item.get("summary") or ()):
        where = {**at, "summary_index": index}
        yield from _part_events(part, where, "reasoning_summary_part", "reasoning_summary_text")
    for index, part in enumerate(item.get("content") or ()):
        yield from _part_events(part, {**at, "content_index": index}, "content_part", "reasoning_text")


def _part_events(
    part: Mapping[str, Any], where: _Json, kind: str, text: str, *, key: str = "text"
) -> _Events:
    yield {"type": f"response.{kind}.added", **where, "part": {**part, key: ""}}
    yield {"type": f"response.{text}.delta", **where, "delta": part[key]}
    yield {"type": f"response.{text}.done", **where, key: part[key]}
    yield {"type": f"response.{kind}.done", **where, "part": part}


def _call_events(item: Mapping[str, Any], at: _Json) -> _Events:
    if item["arguments"]:
        yield {"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]}
    done = {"name": item["name"], "arguments": item["arguments"]}
    yield {"type": "response.function_call_arguments.done", **at, **done}


def _custom_call_events(item: Mapping[str, Any], at: _Json) -> _Events:
    if item["input"]:
        yield {"type": "response.custom_tool_call_input.delta", **at, "delta": item["input"]}
    yield {"type": "response.custom_tool_call_input.done", **at, "input": item["input"]}


_STREAMED: Mapping[str, tuple[_Json, _ItemStreamer]] = {
    "message": ({"content": []}, _message_events),
    "reasoning": ({"summary": []}, _build_reasoning_events),
    "function_call": ({"arguments": ""}, _call_events),
    "custom_tool_call": ({"input": ""}, _custom_call_events),
}
"""Items with delta events: their fields that are empty at the start, and their events."""
