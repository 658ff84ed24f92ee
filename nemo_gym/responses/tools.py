"""Converts tools and `tool_choice` between both APIs.

The Responses API writes a function flat, Chat Completions nests it under `function`. Engines refuse an empty list of
tools, and tool settings without tools, so both are left out. A hosted tool (web search, code interpreter, MCP, ...)
runs at its provider and cannot be sent to a chat engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nemo_gym.responses._content_parts import present, require_text
from nemo_gym.responses.problems import ConversionProblems

_FUNCTION_FIELDS = ("name", "description", "parameters", "strict")
_FLAT_FIELDS = frozenset({"type", *_FUNCTION_FIELDS})
_TOOL_FIELDS_OFF = frozenset({"defer_loading", "async"})
"""Fields of a function that have no effect if they are false."""
_MODES = ("auto", "none", "required")


def convert_tools_to_chat(tools: object, problems: ConversionProblems) -> list[dict[str, Any]]:
    """Return Responses tools as chat tools.

    `strict: false` is chat's default and is left out: a chat template would write it into the prompt.
    """
    converted = []
    for field, tool in problems.tools_in(tools):
        kind = tool.get("type") if isinstance(tool, dict) else None
        if kind != "function":
            problems.add(f"{field}.type", f"{kind!r} is no tool of Chat Completions, only functions are")
            continue
        if not tool.keys() <= _FLAT_FIELDS:
            given = {
                key: value for key, value in tool.items() if not (key in _TOOL_FIELDS_OFF and value is False)
            }
            problems.add_unknown(given, _FLAT_FIELDS, f"{field}.")
        require_text(tool, "name", field, problems)
        function = present(tool, *_FUNCTION_FIELDS)
        if function.get("strict") is False:
            del function["strict"]
        converted.append({"type": "function", "function": function})
    return converted


def convert_tools_to_responses(tools: object, problems: ConversionProblems) -> list[dict[str, Any]]:
    """Return chat tools as Responses tools.

    `strict` is always set, because its default differs: false in chat, true in the Responses API.
    """
    converted = []
    for field, tool in problems.tools_in(tools):
        kind = tool.get("type") if isinstance(tool, dict) else None
        function = tool.get("function") if kind == "function" else None
        if not isinstance(function, dict):
            problems.add(f"{field}.type", f"{kind!r} with no `function` is not a function tool")
            continue
        problems.add_unknown(tool, {"type", "function"}, f"{field}.")
        problems.add_unknown(function, _FLAT_FIELDS, f"{field}.function.")
        require_text(function, "name", f"{field}.function", problems)
        flat = present(function, *_FUNCTION_FIELDS)
        converted.append({"type": "function", **flat, "strict": bool(function.get("strict"))})
    return converted


def convert_tool_choice_to_chat(choice: object, problems: ConversionProblems) -> Any:
    """Return a Responses `tool_choice` as a chat one."""
    if isinstance(choice, str) and choice in _MODES:
        return choice
    kind = choice.get("type") if isinstance(choice, dict) else None
    if isinstance(choice, dict) and kind == "function":
        return _nest_name(choice, "tool_choice", problems)
    if isinstance(choice, dict) and kind == "allowed_tools":
        tools = [
            _nest_name(tool, where, problems)
            for where, tool in _functions_among(choice.get("tools"), "tool_choice.tools", problems)
        ]
        return {
            "type": "allowed_tools",
            "allowed_tools": {"mode": choice.get("mode", "auto"), "tools": tools},
        }
    _add_bad_choice(choice, kind, problems)
    return None


def convert_tool_choice_to_responses(choice: object, problems: ConversionProblems) -> Any:
    """Return a chat `tool_choice` as a Responses one."""
    if isinstance(choice, str) and choice in _MODES:
        return choice
    kind = choice.get("type") if isinstance(choice, dict) else None
    if isinstance(choice, dict) and kind == "function":
        return _flat(choice, "tool_choice", problems)
    allowed = choice.get("allowed_tools") if isinstance(choice, dict) and kind == "allowed_tools" else None
    if isinstance(allowed, dict):
        tools = [
            _flat(tool, where, problems)
            for where, tool in _functions_among(
                allowed.get("tools"), "tool_choice.allowed_tools.tools", problems
            )
        ]
        return {"type": "allowed_tools", "mode": allowed.get("mode", "auto"), "tools": tools}
    _add_bad_choice(choice, kind, problems)
    return None


def put_tools(
    given: Mapping[str, Any],
    converted: dict[str, Any],
    problems: ConversionProblems,
    *,
    tools_of: Callable[[object, ConversionProblems], list[dict[str, Any]]],
    choice_of: Callable[[object, ConversionProblems], Any],
) -> None:
    """Convert the tool settings of a request to those of the other API."""
    choice, tools = given.get("tool_choice"), given.get("tools")
    if tools is None or tools == []:
        check_choice_without_tools(choice, problems)
        return
    converted["tools"] = tools_of(tools, problems)
    if choice is not None:
        converted["tool_choice"] = choice_of(choice, problems)
    converted.update(present(given, "parallel_tool_calls"))


def check_choice_without_tools(choice: object, problems: ConversionProblems) -> None:
    """Add a problem if the `tool_choice` of a request without tools demands a call, in either API."""
    if choice not in (None, "auto", "none"):
        problems.add("tool_choice", f"{choice!r} needs `tools`")


def _nest_name(tool: Mapping[str, Any], field: str, problems: ConversionProblems) -> dict[str, Any]:
    problems.add_unknown(tool, {"type", "name"}, f"{field}.")
    return {"type": "function", "function": {"name": require_text(tool, "name", field, problems)}}


def _flat(tool: Mapping[str, Any], field: str, problems: ConversionProblems) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, dict):
        problems.add(f"{field}.function", "must be an object with `name`")
        return {}
    return {"type": "function", "name": require_text(function, "name", f"{field}.function", problems)}


def _functions_among(
    tools: object, field: str, problems: ConversionProblems
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(tools, list) or not tools:
        problems.add(field, "must be a list of the tools that are allowed")
        return
    for index, tool in enumerate(tools):
        if isinstance(tool, dict) and tool.get("type") == "function":
            yield f"{field}[{index}]", tool
        else:
            problems.add(f"{field}[{index}].type", "only functions can be chosen")


def _add_bad_choice(choice: object, kind: object, problems: ConversionProblems) -> None:
    if kind is None:
        problems.add("tool_choice", f"{choice!r} is neither a mode nor a tool")
    else:
        problems.add("tool_choice.type", f"{kind!r} can't be chosen through the other API")
