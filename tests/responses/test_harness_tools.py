"""Tools in a provider's forms become functions, and their calls get these forms back."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.responses.harness_tools import HarnessTools, qualify_name

SEARCH = {"type": "function", "name": "search", "parameters": {"type": "object"}, "strict": False}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin"},
}
DOCS = {
    "type": "namespace",
    "name": "mcp__docs",
    "description": "Docs.",
    "tools": [SEARCH, {**PATCH, "name": "edit"}],
}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": name, "arguments": arguments}


@pytest.fixture
def tools() -> HarnessTools:
    tools = HarnessTools()
    tools.convert_tools([SEARCH, PATCH, DOCS, {"type": "web_search"}])
    return tools


def test_each_tool_becomes_a_function_or_is_noted() -> None:
    tools = HarnessTools()
    functions = tools.convert_tools([SEARCH, PATCH, DOCS, {"type": "web_search"}])
    assert [function["name"] for function in functions] == [
        "search", "apply_patch", "mcp__docs__search", "mcp__docs__edit",
    ]  # fmt: skip
    assert {function["type"] for function in functions} == {"function"}
    assert functions[1]["parameters"]["required"] == ["input"]
    assert "start: begin" in functions[1]["description"]
    assert [(note.code, note.field) for note in tools.notes] == [
        ("mapped_custom_tool", "tools[1]"),
        ("mapped_namespace", "tools[2]"),
        ("mapped_custom_tool", "tools[2].tools[1]"),
        ("dropped_hosted_tool", "tools[3]"),
    ]


@pytest.mark.parametrize(
    ("sampled", "given"),
    [
        (call("search", "{}"), call("search", "{}")),
        (call("mcp__docs__search", "{}"), {**call("search", "{}"), "namespace": "mcp__docs"}),
        (
            call("apply_patch", '{"input": "*** Begin"}'),
            {
                "type": "custom_tool_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "apply_patch",
                "input": "*** Begin",
            },
        ),
        (
            call("mcp__docs__edit", '{"input": "x"}'),
            {
                "type": "custom_tool_call",
                "id": "fc_1",
                "call_id": "call_1",
                "name": "edit",
                "namespace": "mcp__docs",
                "input": "x",
            },
        ),
    ],
    ids=lambda item: str(item["name"]),
)
def test_a_call_gets_the_form_of_its_tool_and_comes_back_as_it_was_sampled(
    tools: HarnessTools, sampled: dict[str, Any], given: dict[str, Any]
) -> None:
    assert tools.restore_items([sampled]) == [given]
    assert tools.convert_items([given]) == [sampled]


@pytest.mark.parametrize(
    "arguments", ["*** Begin", '{"input": 1}', '{"input": "x", "more": 1}', "[" * 99_999]
)
def test_arguments_that_are_no_text_reach_the_custom_tool_whole(tools: HarnessTools, arguments: str) -> None:
    assert tools.restore_items([call("apply_patch", arguments)])[0]["input"] == arguments


def test_outputs_and_choices_name_functions(tools: HarnessTools) -> None:
    output = {"type": "custom_tool_call_output", "call_id": "call_1", "output": "done"}
    assert tools.convert_items([output]) == [{**output, "type": "function_call_output"}]
    assert tools.convert_choice({"type": "custom", "name": "edit", "namespace": "mcp__docs"}) == {
        "type": "function",
        "name": "mcp__docs__edit",
    }
    assert tools.convert_choice("auto") == "auto"


def test_a_namespace_with_a_separator_gets_no_second_one() -> None:
    assert qualify_name("mcp__docs__", "search") == "mcp__docs__search"
    assert qualify_name(None, "search") == "search"


@pytest.mark.parametrize("tool", [None, 3, {"type": "namespace", "name": "n"}, {"type": "function"}])
def test_malformed_tools_raise_nothing(tool: Any) -> None:
    assert len(HarnessTools().convert_tools([tool])) <= 1
