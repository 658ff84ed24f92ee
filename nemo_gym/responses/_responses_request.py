"""Converts a Chat Completions request to a Responses request, for upstreams that use the Responses API.

The inverse of `_chat_request`, which lists the spellings that a round trip changes. Engine extras (`seed`, `stop`,
`top_k`, ...) are copied unchanged; an upstream that does not support one rejects it by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.responses._content_parts import present
from nemo_gym.responses._request_fields import (
    CHAT_LIMITS,
    CHAT_ONLY,
    INCLUDE_LOGPROBS,
    carry_fields,
    put_limit,
)
from nemo_gym.responses.dialects import VLLM, Dialect
from nemo_gym.responses.history_items import convert_message_to_items
from nemo_gym.responses.problems import ConversionProblems, Converted
from nemo_gym.responses.tools import convert_tool_choice_to_responses, convert_tools_to_responses, put_tools

TARGET = "the Responses API"

_SECTIONED = frozenset(
    {
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "logprobs",
        "top_logprobs",
        "reasoning_effort",
        "response_format",
        "verbosity",
        "metadata",
        *CHAT_LIMITS,
    }
)


def convert_chat_request(body: Mapping[str, Any], dialect: Dialect = VLLM) -> Converted:
    """Return the Responses create-params body for a chat request body, without `stream`.

    `store` is always set, because its default differs: false in chat, true in the Responses API. Raises `InputError`
    that names every field that the Responses API cannot express.
    """
    problems = ConversionProblems()
    params: dict[str, Any] = {
        "input": _convert_input(body.get("messages"), dialect, problems),
        "store": False,
    }
    carry_fields(body, params, _SECTIONED, CHAT_ONLY, problems)
    put_tools(
        body,
        params,
        problems,
        tools_of=convert_tools_to_responses,
        choice_of=convert_tool_choice_to_responses,
    )
    _put_logprobs(body, params)
    _put_text(body, params, problems)
    if body.get("reasoning_effort") is not None:
        params["reasoning"] = {"effort": body["reasoning_effort"]}
    if body.get("metadata"):
        params["metadata"] = body["metadata"]
    put_limit(body, CHAT_LIMITS, params, "max_output_tokens", problems)
    problems.raise_if_any(TARGET)
    return Converted(params, ())


def _convert_input(messages: object, dialect: Dialect, problems: ConversionProblems) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for field, message in problems.messages_in(messages):
        if isinstance(message, dict):
            items += convert_message_to_items(message, field, problems, dialect)
        else:
            problems.add(field, "must be an object")
    return items


def _put_logprobs(body: Mapping[str, Any], params: dict[str, Any]) -> None:
    if body.get("logprobs"):
        params["include"] = [INCLUDE_LOGPROBS]
        params["top_logprobs"] = body.get("top_logprobs") or 0


def _put_text(body: Mapping[str, Any], params: dict[str, Any], problems: ConversionProblems) -> None:
    text: dict[str, Any] = {}
    response_format = body.get("response_format")
    if response_format is not None:
        text["format"] = _convert_response_format(response_format, problems)
    text.update(present(body, "verbosity"))
    if text:
        params["text"] = text


def _convert_response_format(response_format: object, problems: ConversionProblems) -> dict[str, Any]:
    kind = response_format.get("type") if isinstance(response_format, dict) else None
    if isinstance(response_format, dict) and kind == "json_schema":
        problems.add_unknown(response_format, {"type", "json_schema"}, "response_format.")
        schema = response_format.get("json_schema")
        if isinstance(schema, dict):
            return {"type": kind, **{key: value for key, value in schema.items() if value is not None}}
        problems.add("response_format.json_schema", "must be an object")
    elif isinstance(response_format, dict) and kind in ("text", "json_object"):
        problems.add_unknown(response_format, {"type"}, "response_format.")
        return {"type": kind}
    else:
        problems.add("response_format.type", f"{kind!r} is no format of the Responses API")
    return {}
