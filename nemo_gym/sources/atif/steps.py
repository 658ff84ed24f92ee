"""A step as items of the Responses API: reasoning, a message, tool calls, their outputs, in this order.

Both directions read steps by it: the reader takes these items, and the writer keeps what differs from the row's items.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from nemo_gym.sources.atif.media import MediaFolder

Item = dict[str, Any]


def read_items(step: dict[str, Any], media: MediaFolder | None) -> list[Item]:
    """Return the items of a step, which is valid."""
    items: list[Item] = []
    if (reasoning := step.get("reasoning_content")) is not None:
        summary = [{"type": "summary_text", "text": reasoning}]
        items.append({"type": "reasoning", "id": f"rs_{step['step_id']}", "summary": summary})
    calls, results = step.get("tool_calls") or (), (step.get("observation") or {}).get("results") or ()
    if step["message"] not in ("", []) or not (items or calls or results):
        items.append(_read_message(step, media))
    items += [_read_call(call) for call in calls]
    items += [_read_result(result, media) for result in results]
    return items


def _read_message(step: dict[str, Any], media: MediaFolder | None) -> Item:
    message = step["message"]
    if step["source"] != "agent":
        content = message if isinstance(message, str) else [*_read_parts(message, "input_text", media)]
        return {"role": step["source"], "content": content}
    parts = [{"type": "text", "text": message}] if isinstance(message, str) else message
    content = [
        {**part, "annotations": []} if part["type"] == "output_text" else part
        for part in _read_parts(parts, "output_text", media)
    ]
    return {
        "type": "message",
        "id": f"msg_{step['step_id']}",
        "role": "assistant",
        "status": "completed",
        "content": content,
    }


def _read_parts(parts: list[dict[str, Any]], kind: str, media: MediaFolder | None) -> Iterator[Item]:
    for part in parts:
        source = part.get("source") or {}
        path, media_type = source.get("path", ""), source.get("media_type", "")
        data = None if "://" in path or media is None else media.read_data(path)
        if part["type"] == "text":
            yield {"type": kind, "text": part["text"]}
        elif part["type"] == "image":
            url = path if data is None else f"data:{media_type};base64,{data}"
            yield {"type": "input_image", "image_url": url, "detail": "auto"}
        else:
            form = {"audio/mpeg": "mp3"}.get(media_type, media_type.partition("/")[2])
            yield {"type": "input_audio", "input_audio": {"data": data or path, "format": form}}


def _read_call(call: dict[str, Any]) -> Item:
    return {
        "type": "function_call",
        "id": f"fc_{call['tool_call_id']}",
        "call_id": call["tool_call_id"],
        "name": call["function_name"],
        "arguments": write_arguments(call["arguments"]),
        "status": "completed",
    }


def _read_result(result: dict[str, Any], media: MediaFolder | None) -> Item:
    content = result.get("content")
    output = [*_read_parts(content, "input_text", media)] if isinstance(content, list) else content or ""
    return {"type": "function_call_output", "call_id": result.get("source_call_id") or "", "output": output}


def write_arguments(arguments: dict[str, Any]) -> str:
    """Return arguments as the text of a tool call, as most models write it."""
    return json.dumps(arguments, ensure_ascii=False)
