"""Rows in the forms of others: a JSON array, `messages`, and tools of Chat Completions. They are named and converted.

`find_foreign_parts` says what of a row has such a form, and `convert_row` makes a task row of it. A part that cannot be
converted stays as it is, and is refused as in any row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nemo_gym.failures import ConfigError, InputError
from nemo_gym.rows.keys import PARAMS_KEY

_MESSAGES, _INPUT, _TOOLS, _FUNCTION = "messages", "input", "tools", "function"
_REQUEST = (_MESSAGES, _INPUT, _TOOLS, "tool_choice", "temperature", "top_p", "parallel_tool_calls")
"""Members of a request that may stand beside the members of a task."""
CHAT_FORM = "has the form of Chat Completions"


def name_conversion(path: Path | str = "IN.jsonl") -> str:
    """Return the command that converts the rows of a file."""
    stem = Path(path).name.split(".")[0]
    return f"gym dataset convert {path} -o {Path(path).parent / f'{stem}_tasks.jsonl'}"


def refuse_array(path: Path, first_line: bytes) -> None:
    """Raise `ConfigError` if a file is one JSON array instead of a row in each line."""
    if first_line.lstrip()[:1] == b"[":
        raise ConfigError(
            f"{path} is a JSON array; a dataset has one JSON object in each line (JSONL)",
            code="dataset_array",
            remedy=f"Convert it: {name_conversion(path)}",
        )


def find_foreign_parts(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the places of a row that have the form of Chat Completions, each with what it has to be."""
    params = row.get(PARAMS_KEY)
    inner = params if isinstance(params, Mapping) else {}
    for place, holder in ((f"{PARAMS_KEY}.", inner), ("", row)):
        if _MESSAGES in holder and _INPUT not in inner:
            yield f"{place}{_MESSAGES}", f"{CHAT_FORM}: the conversation of a task is `{PARAMS_KEY}.{_INPUT}`"
    for number, tool in enumerate(_list_tools(inner)):
        if _is_nested(tool):
            yield (
                f"{PARAMS_KEY}.{_TOOLS}[{number}]",
                f"{CHAT_FORM}: `name` and `parameters` stand beside `type`, and not in `{_FUNCTION}`",
            )


def convert_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the task row of a row in the form of Chat Completions. Other members are kept. Raises `ValueError`."""
    params = row.get(PARAMS_KEY)
    request = dict(params) if isinstance(params, Mapping) else {}
    if PARAMS_KEY not in row:
        request = {name: row[name] for name in _REQUEST if name in row}
    elif _INPUT not in request and _MESSAGES not in request and _MESSAGES in row:
        request[_MESSAGES] = row[_MESSAGES]
    if _MESSAGES in request and _INPUT not in request:
        from nemo_gym.responses import VLLM, convert_chat_request  # only for rows in this form

        try:
            converted = convert_chat_request(request, VLLM).body
        except InputError as error:
            raise ValueError(error.failure.message) from error
        # The conversion says what a request leaves open; a task leaves it open, too.
        request = {name: value for name, value in converted.items() if name != "store" or "store" in request}
    if _INPUT not in request:
        raise ValueError(f"there is neither `{PARAMS_KEY}.{_INPUT}` nor `{_MESSAGES}`")
    if _list_tools(request):
        request[_TOOLS] = [_flatten(tool) if _is_nested(tool) else tool for tool in request[_TOOLS]]
    moved = {_MESSAGES} if PARAMS_KEY in row else {*_REQUEST}
    return {PARAMS_KEY: request, **{key: row[key] for key in row if key != PARAMS_KEY and key not in moved}}


def _list_tools(request: Mapping[str, Any]) -> list[Any]:
    tools = request.get(_TOOLS)
    return tools if isinstance(tools, list) else []


def _is_nested(tool: Any) -> bool:
    return isinstance(tool, Mapping) and isinstance(tool.get(_FUNCTION), Mapping) and "name" not in tool


def _flatten(tool: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        **{key: tool[key] for key in tool if key not in (_FUNCTION, "type")},
        **tool[_FUNCTION],
    }
