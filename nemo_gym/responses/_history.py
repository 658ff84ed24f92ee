"""Normalizes requests to `/v1/chat/completions` for the engine.

Clients repeat the whole history on every turn, so one invalid value in it would fail every later turn. Such values
are repaired here, as `build_chat_request` does for Responses requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.responses._content_parts import present
from nemo_gym.responses._request_fields import CHAT_LIMITS, CHAT_ONLY, STREAM_FIELDS, put_limit
from nemo_gym.responses.arguments import check_arguments
from nemo_gym.responses.dialects import TRAINING_FIELDS, VLLM, Dialect
from nemo_gym.responses.history_items import read_reasoning_text
from nemo_gym.responses.metadata_extras import put_metadata
from nemo_gym.responses.problems import ConversionProblems, Converted
from nemo_gym.responses.reasoning import put_reasoning
from nemo_gym.responses.tools import check_choice_without_tools

_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")
_REWRITTEN = frozenset({"messages", "metadata", *_TOOL_FIELDS, *CHAT_LIMITS, *STREAM_FIELDS})
_REWRITTEN_OF_ASSISTANT = frozenset({"tool_calls", "reasoning", "reasoning_content"})


def tidy_chat_request(body: Mapping[str, Any], dialect: Dialect = VLLM) -> Converted:
    """Return a copy of `body` with history, tools and limits in the dialect's form, without `stream`.

    Unknown fields are kept. Raises `InputError` for `n` above 1, a tool choice without tools, contradicting limits,
    and invalid `arguments` if the dialect refuses them.
    """
    problems = ConversionProblems()
    tidy: dict[str, Any] = {"messages": _tidy_messages(body.get("messages"), dialect, problems)}
    for name, value in body.items():
        if value is not None and name not in _REWRITTEN:
            tidy[name] = value
    if tidy.get("n", 1) != 1:
        problems.add("n", CHAT_ONLY["n"][0])
    if tidy.get("logprobs"):
        tidy.setdefault("top_logprobs", 0)
    _put_tools(body, tidy, problems)
    put_limit(body, CHAT_LIMITS, tidy, dialect.max_tokens_field, problems)
    put_metadata(body.get("metadata"), tidy, dialect, problems)
    problems.raise_if_any("this engine's Chat Completions")
    return Converted(tidy, tuple(problems.notes))


def _put_tools(body: Mapping[str, Any], tidy: dict[str, Any], problems: ConversionProblems) -> None:
    if body.get("tools"):
        tidy.update(present(body, *_TOOL_FIELDS))
    else:
        check_choice_without_tools(body.get("tool_choice"), problems)


def _tidy_messages(
    messages: object, dialect: Dialect, problems: ConversionProblems
) -> list[Mapping[str, Any]]:
    tidy: list[Mapping[str, Any]] = []
    for field, message in problems.messages_in(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if role is None:
            problems.add(f"{field}.role", "is missing")
        elif role == "assistant":
            tidy.append(_tidy_assistant(message, dialect, field, problems))
        elif role == "developer" and dialect.replace_developer_role_with_system:
            tidy.append({**message, "role": "system"})
        else:
            tidy.append(message)
    return tidy


def _tidy_assistant(
    message: Mapping[str, Any], dialect: Dialect, field: str, problems: ConversionProblems
) -> dict[str, Any]:
    left_out = (
        _REWRITTEN_OF_ASSISTANT if dialect.keep_token_ids else _REWRITTEN_OF_ASSISTANT | set(TRAINING_FIELDS)
    )
    tidy = {key: value for key, value in message.items() if key not in left_out}
    calls = [
        _tidy_call(call, dialect, f"{field}.tool_calls[{index}]", problems)
        for index, call in enumerate(message.get("tool_calls") or ())
    ]
    reasoning = read_reasoning_text(message, field, problems)
    if reasoning and dialect.drop_input_reasoning_items:
        problems.note("dropped_reasoning", field, "left out, as the configuration says")
    elif reasoning:
        put_reasoning(tidy, [reasoning], dialect)
    if calls:
        tidy["tool_calls"] = calls
    if tidy.get("content") is None:
        tidy["content"] = dialect.empty_content if calls or reasoning else ""
    return tidy


def _tidy_call(call: object, dialect: Dialect, field: str, problems: ConversionProblems) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict) or not isinstance(arguments, str):
        return call  # not a function call: the engine accepts or rejects it
    where = f"{field}.function.arguments"
    checked = check_arguments(arguments, dialect.bad_arguments, where, problems)
    return call if checked is arguments else {**call, "function": {**function, "arguments": checked}}
