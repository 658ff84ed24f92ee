"""Converts a Responses object to a Chat Completions answer, for upstreams that use the Responses API.

A chat answer is one message: the texts of all messages are joined, like `output_text` of the `openai` client, and so
is the reasoning. An item without a place in a chat message (a hosted tool's call, a tool's output) is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nemo_gym.responses._answer_fields import (
    build_malformed_error,
    read_object,
    read_objects,
    read_required_text,
)
from nemo_gym.responses._content_parts import present
from nemo_gym.responses._usage import convert_usage_to_chat
from nemo_gym.responses.dialects import TRAINING_FIELDS
from nemo_gym.responses.finish import check_finished
from nemo_gym.responses.logprobs import convert_logprobs_to_chat
from nemo_gym.responses.reasoning import BETWEEN_REASONING_PARTS


def convert_response_to_chat(response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chat completion equivalent to `response`.

    Raises `EngineError`: `engine_error` for a failed response, `malformed_answer` for an unfinished one or one that
    chat cannot express.
    """
    check_finished(response)
    message, logprobs = _build_message(read_objects(response, "output", ""))
    return {
        "id": response.get("id") or "",
        "object": "chat.completion",
        "created": int(response.get("created_at") or 0),
        "model": response.get("model") or "",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": {"content": convert_logprobs_to_chat(logprobs)} if logprobs else None,
                "finish_reason": _convert_finish_reason(response, bool(message.get("tool_calls"))),
            }
        ],
        "usage": convert_usage_to_chat(response.get("usage")),
        "service_tier": response.get("service_tier"),
    }


def _convert_finish_reason(response: Mapping[str, Any], has_calls: bool) -> str:
    if response.get("status") == "incomplete":
        reason = read_object(response, "incomplete_details", "").get("reason")
        return "content_filter" if reason == "content_filter" else "length"
    return "tool_calls" if has_calls else "stop"


def _build_message(output: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], list[Mapping[str, Any]]]:
    reasoning: list[str] = []
    parts: list[Mapping[str, Any]] = []
    calls: list[dict[str, Any]] = []
    training: dict[str, Any] = {}
    for index, item in enumerate(output):
        path = f"output[{index}]."
        kind = item.get("type")
        if kind == "reasoning":
            key = "content" if item.get("content") else "summary"
            reasoning += [
                read_required_text(part, "text", f"{path}{key}[].") for part in read_objects(item, key, path)
            ]
        elif kind == "message":
            parts += read_objects(item, "content", path)
        elif kind == "function_call":
            name, call_id, arguments = (
                read_required_text(item, key, path) for key in ("name", "call_id", "arguments")
            )
            calls.append(
                {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            )
        else:
            raise build_malformed_error(
                f"{path}type", f"is {kind!r:.80}, which Chat Completions can't express"
            )
        training.update(present(item, *TRAINING_FIELDS))
    message = _add_parts({"role": "assistant", "content": None, "refusal": None}, parts)
    if reasoning:
        message["reasoning"] = message["reasoning_content"] = BETWEEN_REASONING_PARTS.join(reasoning)
    if calls:
        message["tool_calls"] = calls
    message.update(training)
    return message, [
        entry for part in parts for entry in read_objects(part, "logprobs", "output[].content[].")
    ]


def _add_parts(message: dict[str, Any], parts: list[Mapping[str, Any]]) -> dict[str, Any]:
    path = "output[].content[]."
    texts = [part for part in parts if part.get("type") == "output_text"]
    refusals = [read_required_text(part, "refusal", path) for part in parts if part.get("type") == "refusal"]
    if len(texts) + len(refusals) < len(parts):
        raise build_malformed_error(path + "type", "is no part that Chat Completions can express")
    if texts:
        message["content"] = "".join(read_required_text(part, "text", path) for part in texts)
    if refusals:
        message["refusal"] = "".join(refusals)
    annotations = [
        _nest_annotation(annotation)
        for part in texts
        for annotation in read_objects(part, "annotations", path)
    ]
    if annotations:
        message["annotations"] = annotations
    return message


def _nest_annotation(annotation: Mapping[str, Any]) -> dict[str, Any]:
    kind = read_required_text(annotation, "type", "output[].content[].annotations[].")
    return {"type": kind, kind: {key: value for key, value in annotation.items() if key != "type"}}
