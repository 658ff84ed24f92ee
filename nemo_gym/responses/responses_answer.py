"""Converts a Chat Completions answer to a Responses object.

Items are in the order reasoning, message, calls. The model's output is kept verbatim, including malformed
`arguments`. A truncated generation is `incomplete`, and so is its last item. A malformed answer raises `EngineError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import orjson

from nemo_gym.failures import build_error
from nemo_gym.names import STOP_SEQUENCE_KEY
from nemo_gym.responses._answer_fields import (
    build_malformed_error,
    read_object,
    read_objects,
    read_required_text,
    read_text,
)
from nemo_gym.responses._chat_request import wants_logprobs
from nemo_gym.responses._request_fields import RESPONSES_LIMITS
from nemo_gym.responses._usage import convert_usage_to_responses, read_completion_tokens
from nemo_gym.responses.arguments import NO_ARGUMENTS, is_json_object
from nemo_gym.responses.dialects import VLLM, Dialect
from nemo_gym.responses.engine_errors import is_error_body, read_body_failure
from nemo_gym.responses.finish import Finish, read_finish
from nemo_gym.responses.logprobs import convert_logprobs_to_text, has_missing_logprobs, is_entry
from nemo_gym.responses.reasoning import split_thinking

IdFactory: TypeAlias = Callable[[str], str]
"""Creates a new id with a prefix: `ids("msg")` is `msg_…`."""

_Json: TypeAlias = dict[str, Any]

_ECHOED: Mapping[str, None] = dict.fromkeys(
    (
        "background",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "previous_response_id",
        "prompt_cache_key",
        "reasoning",
        "safety_identifier",
        "service_tier",
        "store",
        "temperature",
        "top_logprobs",
        "top_p",
        "user",
    )
)
"""Fields of the request that a Responses object repeats; null if they were not set."""

_MESSAGE = "choices[0].message."
_DEFAULT_TEXT: Mapping[str, Any] = {"format": {"type": "text"}}
_OPTIONAL_TOOL_FIELDS: Mapping[str, None] = {"parameters": None, "strict": None}
"""Fields of a function tool that are optional in a request and required in an answer."""


class ConvertedAnswer(NamedTuple):
    """A Responses object, and details of the generation's end that it cannot express."""

    response: dict[str, Any]
    finish: Finish


class OutputItems(NamedTuple):
    """The items of one answer, and warnings as codes for counting."""

    items: list[dict[str, Any]]
    warnings: tuple[str, ...]


def convert_chat_to_response(
    chat: Mapping[str, Any],
    params: Mapping[str, Any],
    *,
    ids: IdFactory,
    now: float,
    dialect: Dialect = VLLM,
    max_tokens: int | None = None,
) -> ConvertedAnswer:
    """Return the Responses object of a chat completion.

    `params` is the request that `chat` answers. `ids` is called with the prefixes `resp`, `rs`, `msg`, `fc` and `call`.
    `max_tokens` is the engine's limit, if it differs from the request's. Raises `EngineError`.
    """
    choice, message = _only_choice(chat)
    usage = chat.get("usage")
    finish = read_finish(
        choice,
        completion_tokens=read_completion_tokens(usage),
        max_tokens=_read_limit(params) if max_tokens is None else max_tokens,
        offers_tools=bool(params.get("tools")),
    )
    output = build_output_items(message, ids=ids, dialect=dialect)
    warnings = finish.warnings + output.warnings
    if finish.incomplete_details is not None:
        output.items[-1]["status"] = "incomplete"
    if wants_logprobs(params):
        warnings += _put_logprobs(choice, output.items)
    response = build_envelope(params, ids=ids, now=now) | {
        "model": chat.get("model") or params.get("model") or "",
        "status": finish.status,
        "incomplete_details": finish.incomplete_details,
        "output": output.items,
        "service_tier": chat.get("service_tier") or params.get("service_tier"),
        "usage": convert_usage_to_responses(usage),
    }
    if isinstance(finish.stop_reason, str):
        response[STOP_SEQUENCE_KEY] = finish.stop_reason
    warnings += ("partial_usage",) if usage and response["usage"] is None else ()
    return ConvertedAnswer(response, replace(finish, warnings=warnings) if warnings else finish)


def build_envelope(params: Mapping[str, Any], *, ids: IdFactory, now: float) -> dict[str, Any]:
    """Return a Responses object without an outcome: its id, and the repeated fields of the request."""
    tools = params.get("tools") or []
    parallel, tool_choice = params.get("parallel_tool_calls"), params.get("tool_choice")
    return {
        "id": ids("resp"),
        "object": "response",
        "created_at": int(now),
        "model": params.get("model") or "",
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
        **_ECHOED,
        **{name: value for name, value in params.items() if name in _ECHOED},
        "metadata": params.get("metadata") or {},
        "parallel_tool_calls": True if parallel is None else parallel,
        "text": params.get("text") or _DEFAULT_TEXT,
        "tool_choice": "auto" if tool_choice is None else tool_choice,
        "tools": [
            tool if "parameters" in tool and "strict" in tool else _OPTIONAL_TOOL_FIELDS | tool
            for tool in tools
        ],
        "truncation": "disabled",
    }


# --- Output -----------------------------------------------------------------------------------------------------


def build_output_items(message: Mapping[str, Any], *, ids: IdFactory, dialect: Dialect = VLLM) -> OutputItems:
    """Return the output items of an assistant message."""
    items: list[_Json] = []
    warnings: list[str] = []
    content = message.get("content")
    thoughts = _thoughts_in_fields(message, warnings)
    if not thoughts and isinstance(content, str) and content:
        thoughts, content, is_closed = split_thinking(content, dialect)
        if not is_closed:
            warnings.append("unclosed_thinking")
    if thoughts:
        summary = [{"type": "summary_text", "text": text} for text in thoughts]
        items.append({"type": "reasoning", "id": ids("rs"), "status": "completed", "summary": summary})
    calls = _call_items(message, ids, warnings)
    parts = _output_parts(content, message)
    if parts or not (items or calls):
        items.append(
            {
                "type": "message",
                "id": ids("msg"),
                "role": "assistant",
                "status": "completed",
                "content": parts or [_output_text("")],
            }
        )
    return OutputItems(items + calls, tuple(warnings))


def _thoughts_in_fields(message: Mapping[str, Any], warnings: list[str]) -> tuple[str, ...]:
    reasoning, old_name = (read_text(message, key, _MESSAGE) for key in ("reasoning", "reasoning_content"))
    if reasoning and old_name and reasoning != old_name:
        warnings.append("conflicting_reasoning")
    text = reasoning or old_name
    return (text,) if text else ()


def _output_parts(content: object, message: Mapping[str, Any]) -> list[_Json]:
    parts = [_output_text(content)] if isinstance(content, str) and content else []
    if content is not None and not isinstance(content, str):
        path = f"{_MESSAGE}content[]."
        for part in read_objects({"content": content}, "content", _MESSAGE):
            if part.get("type") in ("text", "output_text"):
                parts.append(_output_text(read_required_text(part, "text", path)))
            elif part.get("type") == "refusal":
                parts.append({"type": "refusal", "refusal": read_required_text(part, "refusal", path)})
            else:
                raise build_malformed_error(
                    f"{path}type", f"is {part.get('type')!r:.80}, which is not a part of an answer"
                )
    refusal = read_text(message, "refusal", _MESSAGE)
    if refusal:
        parts.append({"type": "refusal", "refusal": refusal})
    if message.get("audio"):
        raise build_malformed_error(f"{_MESSAGE}audio", "is audio, which a Responses object cannot hold")
    annotations = read_objects(message, "annotations", _MESSAGE)
    if annotations and parts and parts[0]["type"] == "output_text":
        parts[0]["annotations"] = [_flat_annotation(annotation) for annotation in annotations]
    return parts


def _output_text(text: str) -> _Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _flat_annotation(annotation: Mapping[str, Any]) -> _Json:
    kind = annotation.get("type")
    nested = annotation.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **nested} if isinstance(nested, dict) else dict(annotation)


def _call_items(message: Mapping[str, Any], ids: IdFactory, warnings: list[str]) -> list[_Json]:
    calls = read_objects(message, "tool_calls", _MESSAGE)
    if not calls and message.get("function_call"):
        calls = [{"function": message["function_call"]}]
    items: list[_Json] = []
    seen: set[str] = set()
    for index, call in enumerate(calls):
        path = f"{_MESSAGE}tool_calls[{index}]."
        function = read_object(call, "function", path)
        call_id = read_text(call, "id", path)
        if not call_id or call_id in seen:
            warnings.append("duplicate_call_id" if call_id else "missing_call_id")
            call_id = ids("call")
        seen.add(call_id)
        arguments = _arguments_text(function.get("arguments"))
        if not is_json_object(arguments):
            warnings.append("malformed_arguments")
        items.append(
            {
                "type": "function_call",
                "id": ids("fc"),
                "call_id": call_id,
                "name": read_required_text(function, "name", f"{path}function."),
                "arguments": arguments,
                "status": "completed",
            }
        )
    return items


def _arguments_text(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return NO_ARGUMENTS if arguments is None else orjson.dumps(arguments).decode()


# --- Choice and logprobs ----------------------------------------------------------------------------------------


def _only_choice(chat: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    if is_error_body(chat):
        raise build_error(read_body_failure(chat))
    choices = read_objects(chat, "choices", "")
    if len(choices) != 1:
        raise build_malformed_error("choices", f"holds {len(choices)} answers, but one was requested")
    message = read_object(choices[0], "message", "choices[0].")
    if not message:
        raise build_malformed_error("choices[0].message", "is missing")
    return choices[0], message


def _read_limit(params: Mapping[str, Any]) -> int | None:
    return next((params[name] for name in RESPONSES_LIMITS if params.get(name) is not None), None)


def _put_logprobs(choice: Mapping[str, Any], items: list[_Json]) -> tuple[str, ...]:
    """Add the logprobs to each text, and return warnings."""
    path = "choices[0]."
    entries = read_objects(read_object(choice, "logprobs", path), "content", f"{path}logprobs.")
    if not entries:
        return ("missing_logprobs",)
    if not all(is_entry(entry) for entry in entries):
        raise build_malformed_error(
            f"{path}logprobs.content", "holds an entry that is not a token with its logprob"
        )
    warnings = ["missing_logprobs"] if has_missing_logprobs(entries) else []
    for item in items:
        for part in item["content"] if item["type"] == "message" else ():
            if part["type"] == "output_text" and part["text"]:
                part["logprobs"] = convert_logprobs_to_text(entries, part["text"])
                if part["logprobs"] is None:
                    warnings.append("unaligned_logprobs")
    return tuple(warnings)
