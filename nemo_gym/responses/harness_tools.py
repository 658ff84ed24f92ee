"""Tools of the Responses API that only agents of a product declare, as functions and back.

A `custom` tool takes a text instead of JSON: it becomes a function with one argument, `input`. A `namespace` is a group
of tools: each becomes a function `<namespace>__<name>`. The calls of an answer get their original form again, and the
calls of a history become those functions, so the engine reads what it sampled. Tools that run at a provider
(`web_search`, ...) are left out, because no engine of ours has them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from nemo_gym.responses.problems import Note

_Json: TypeAlias = dict[str, Any]

TEXT_ARGUMENT = "input"
_SEPARATOR = "__"
_HARMLESS = frozenset({"defer_loading", "async", "cache_control"})


class _Origin(NamedTuple):
    """The form in which a function was declared."""

    name: str
    namespace: str | None
    is_custom: bool


class HarnessTools:
    """The tools of one request, and the forms in which they were declared."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._origins: dict[str, _Origin] = {}

    @property
    def namespaces(self) -> dict[str, tuple[str, str]]:
        """The namespace and the name of every function that was declared in a namespace."""
        return {
            function: (origin.namespace, origin.name)
            for function, origin in self._origins.items()
            if origin.namespace is not None
        }

    # --- The request ------------------------------------------------------------------------------------------------

    def convert_tools(self, tools: Iterable[Any]) -> list[Any]:
        """Return the functions for declared tools. Malformed ones are left for the conversion to refuse."""
        functions: list[Any] = []
        for index, tool in enumerate(tools):
            functions += self._convert_tool(tool, f"tools[{index}]", None)
        return functions

    def _convert_tool(self, tool: Any, field: str, namespace: str | None) -> Iterator[Any]:
        kind = tool.get("type") if isinstance(tool, Mapping) else None
        if kind == "namespace" and isinstance(tool.get("tools"), list) and namespace is None:
            self._note("mapped_namespace", field, "its tools became functions")
            for index, member in enumerate(tool["tools"]):
                yield from self._convert_tool(member, f"{field}.tools[{index}]", str(tool.get("name")))
        elif kind == "custom":
            self._note("mapped_custom_tool", field, "became a function that takes a text")
            yield self._declare(_text_function(tool), namespace, is_custom=True)
        elif kind in ("function", None):
            kept = {key: value for key, value in tool.items() if key not in _HARMLESS} if kind else tool
            yield self._declare(kept, namespace) if namespace is not None else kept
        else:
            self._note("dropped_hosted_tool", field, f"`{kind}` runs at its provider")

    def _declare(self, function: _Json, namespace: str | None, *, is_custom: bool = False) -> _Json:
        name = str(function.get("name"))
        qualified = qualify_name(namespace, name)
        self._origins[qualified] = _Origin(name, namespace, is_custom)
        return {**function, "name": qualified}

    def convert_items(self, items: Iterable[Any]) -> list[Any]:
        """Return the items of a history with function calls in the place of calls of other tools."""
        return [_function_item(item) if isinstance(item, Mapping) else item for item in items]

    def convert_choice(self, choice: Any) -> Any:
        """Return a `tool_choice` that names a function."""
        if isinstance(choice, Mapping) and choice.get("type") in ("custom", "function"):
            return {
                "type": "function",
                "name": qualify_name(choice.get("namespace"), str(choice.get("name"))),
            }
        return choice

    def _note(self, code: str, field: str, message: str) -> None:
        self.notes.append(Note(code, field, message))

    # --- The answer -------------------------------------------------------------------------------------------------

    def restore_items(self, output: Iterable[_Json]) -> list[_Json]:
        """Return the output items of an answer with each call in the form of its declaration."""
        return [self._restore_item(item) for item in output]

    def _restore_item(self, item: _Json) -> _Json:
        origin = self._origins.get(item.get("name", "")) if item.get("type") == "function_call" else None
        if origin is None:
            return item
        restored = {**item, "name": origin.name}
        if origin.namespace is not None:
            restored["namespace"] = origin.namespace
        if origin.is_custom:
            restored["type"] = "custom_tool_call"
            restored["input"] = _text_in(restored.pop("arguments"))
        return restored


def qualify_name(namespace: str | None, name: str) -> str:
    """Return the name of a tool's function: `mcp__docs` and `search` are `mcp__docs__search`."""
    if not namespace:
        return name
    return namespace + (name if namespace.endswith(_SEPARATOR) else _SEPARATOR + name)


def _text_function(tool: Mapping[str, Any]) -> _Json:
    description = str(tool.get("description") or "")
    form = tool.get("format")
    if isinstance(form, Mapping) and form.get("definition"):
        description += (
            f"\n\nThe input has to follow this {form.get('syntax', '')} grammar:\n{form['definition']}"
        )
    text = {"type": "string", "description": "The whole input of the tool, as plain text."}
    return {
        "type": "function",
        "name": tool.get("name"),
        "description": description,
        "parameters": {"type": "object", "properties": {TEXT_ARGUMENT: text}, "required": [TEXT_ARGUMENT]},
        "strict": False,
    }


def _function_item(item: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = item.get("type")
    if kind == "custom_tool_call_output":
        return {**item, "type": "function_call_output"}
    if kind not in ("custom_tool_call", "function_call"):
        return item
    called = {key: value for key, value in item.items() if key not in ("namespace", TEXT_ARGUMENT)}
    if kind == "custom_tool_call":
        called["arguments"] = json.dumps({TEXT_ARGUMENT: item.get(TEXT_ARGUMENT)}, ensure_ascii=False)
    name = qualify_name(item.get("namespace"), str(item.get("name")))
    return {**called, "type": "function_call", "name": name}


def _text_in(arguments: str) -> str:
    """Return the text that a model gave to a custom tool; all its arguments if it wrote something else."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    text = given.get(TEXT_ARGUMENT) if isinstance(given, dict) and given.keys() == {TEXT_ARGUMENT} else None
    return text if isinstance(text, str) else arguments
