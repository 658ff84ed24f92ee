"""Parsing of `/v1/responses` requests into the chat messages and tools of policies and templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nemo_gym.mock_engine.conversation import Message, Tool
from nemo_gym.mock_engine.refusals import Refusal
from nemo_gym.mock_engine.request import (
    GenerationRequest,
    chat_tool_choice,
    check_messages,
    integer,
    positive,
    read_sampling,
)


def parse_responses(payload: Mapping[str, Any]) -> GenerationRequest:
    """Parse a request of `/v1/responses`. Raises Refusal."""
    if payload.get("previous_response_id") is not None:
        raise Refusal(
            f"Response with id '{payload['previous_response_id']}' not found.",
            status=404,
            param="previous_response_id",
        )
    tools = _tools(payload.get("tools") or [])
    tool_choice, named_tool = chat_tool_choice(_convert_tool_choice(payload), tools)
    reasoning = payload.get("reasoning")
    request = GenerationRequest(
        messages=check_messages(convert_input(payload), "input"),
        tools=tools,
        tool_choice=tool_choice,
        named_tool=named_tool,
        takes_many_calls=payload.get("parallel_tool_calls") is not False,
        max_tokens=positive(payload, "max_output_tokens"),
        clamps_max_tokens=True,
        schema=_schema(payload.get("text")),
        thinks=not (isinstance(reasoning, dict) and reasoning.get("effort") == "none"),
    )
    read_sampling(request, payload)
    included = payload.get("include") or []
    request.wants_logprobs = "message.output_text.logprobs" in included
    request.top_logprobs = integer(payload, "top_logprobs", 0) or 0
    request.wants_ids = payload.get("enable_response_messages") is True
    return request


def convert_input(payload: Mapping[str, Any]) -> list[Message]:
    """Return `instructions` and the items of `input` as chat messages.

    The reasoning, text and call items of one assistant turn become one message.
    """
    items = payload.get("input")
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    if not isinstance(items, list):
        raise Refusal("`input` must be a string or an array of items.", param="input")
    messages: list[dict[str, Any]] = []
    if isinstance(payload.get("instructions"), str):
        messages.append({"role": "system", "content": payload["instructions"]})
    for item in items:
        if not isinstance(item, dict):
            raise Refusal(f"An item of `input` is not an object: {item!r}.", param="input")
        _add_item(messages, item)
    return list(messages)


def _add_item(messages: list[dict[str, Any]], item: Mapping[str, Any]) -> None:
    match item.get("type", "message"):
        case "message" if item.get("role") == "assistant":
            _turn_for(messages, "content")["content"] = item.get("content")
        case "message":
            messages.append({"role": item.get("role"), "content": item.get("content")})
        case "reasoning":
            parts = item.get("content") or item.get("summary") or []
            text = "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
            _turn_for(messages, "reasoning")["reasoning"] = text
        case "function_call":
            call = {"name": item.get("name"), "arguments": item.get("arguments")}
            calls = _turn_for(messages, "tool_calls").setdefault("tool_calls", [])
            calls.append({"id": item.get("call_id"), "type": "function", "function": call})
        case "function_call_output":
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": item.get("call_id"),
                    "content": _convert_output(item.get("output")),
                }
            )
        case kind:
            raise Refusal(f"The mock engine doesn't take items of type {kind!r}.", param="input")


_CLOSED_BY: Mapping[str, tuple[str, ...]] = {
    "reasoning": ("reasoning", "content", "tool_calls"),
    "content": ("content", "tool_calls"),
    "tool_calls": (),
}
"""Parts after which a part of this kind starts a new turn. A turn is reasoning, then text, then calls."""


def _turn_for(messages: list[dict[str, Any]], part: str) -> dict[str, Any]:
    """Return the assistant message for a part: the last message, or a new one."""
    last = messages[-1] if messages and messages[-1]["role"] == "assistant" else None
    if last is None or any(last.get(other) for other in _CLOSED_BY[part]):
        messages.append(last := {"role": "assistant", "content": None})
    return last


def _convert_output(output: object) -> object:
    return output if isinstance(output, str | list) else str(output)


def _tools(tools: object) -> Sequence[Tool]:
    if not isinstance(tools, list):
        raise Refusal("`tools` must be an array.", param="tools")
    chat_tools = []
    for tool in tools:
        if (
            not isinstance(tool, dict)
            or tool.get("type") != "function"
            or not isinstance(tool.get("name"), str)
        ):
            raise Refusal("Each of `tools` must be a function with a `name`.", param="tools")
        function = {key: tool[key] for key in ("name", "description", "parameters", "strict") if key in tool}
        chat_tools.append({"type": "function", "function": function})
    return chat_tools


def _convert_tool_choice(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the tool choice in chat form. Responses clients send "auto" even without tools."""
    choice = payload.get("tool_choice")
    if choice == "auto":
        return {}
    if isinstance(choice, dict) and "name" in choice:
        return {"tool_choice": {"type": "function", "function": {"name": choice["name"]}}}
    return {"tool_choice": choice}


def _schema(text: object) -> Mapping[str, Any] | None:
    wanted = text.get("format") if isinstance(text, dict) else None
    if not isinstance(wanted, dict) or wanted.get("type") == "text":
        return None
    if wanted.get("type") == "json_object":
        return {"type": "object"}
    if wanted.get("type") == "json_schema" and isinstance(wanted.get("schema"), dict):
        return dict(wanted["schema"])
    raise Refusal(f"`text.format` is not understood: {wanted!r}.", param="text")
