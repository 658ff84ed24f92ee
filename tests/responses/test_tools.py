from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.responses.problems import ConversionProblems
from nemo_gym.responses.tools import (
    check_choice_without_tools,
    convert_tool_choice_to_chat,
    convert_tool_choice_to_responses,
    convert_tools_to_chat,
    convert_tools_to_responses,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FLAT = {"type": "function", "name": "f", "description": "d", "parameters": SCHEMA, "strict": True}
NESTED = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True},
}


def refused_field(problems: ConversionProblems) -> str | None:
    with pytest.raises(InputError) as caught:
        problems.raise_if_any("the other API")
    return caught.value.failure.param


def test_functions_are_nested_and_flattened() -> None:
    problems = ConversionProblems()
    assert convert_tools_to_chat([FLAT], problems) == [NESTED]
    assert convert_tools_to_responses([NESTED], problems) == [FLAT]
    assert not problems


def test_strict_is_written_out_only_where_its_default_differs() -> None:
    problems = ConversionProblems()
    assert "strict" not in convert_tools_to_chat([{**FLAT, "strict": False}], problems)[0]["function"]
    assert "strict" not in convert_tools_to_chat([{**FLAT, "strict": None}], problems)[0]["function"]
    bare = {"type": "function", "function": {"name": "f"}}
    assert convert_tools_to_responses([bare], problems) == [
        {"type": "function", "name": "f", "strict": False}
    ]
    assert not problems


@pytest.mark.parametrize("kind", ["web_search", "code_interpreter", "mcp", "custom", None])
def test_a_hosted_tool_is_named(kind: str | None) -> None:
    problems = ConversionProblems()
    convert_tools_to_chat([FLAT, {"type": kind}], problems)
    assert refused_field(problems) == "tools[1].type"


@pytest.mark.parametrize(
    ("extra", "field"),
    [({"defer_loading": True}, "tools[0].defer_loading"), ({"function": {}}, "tools[0].function")],
)
def test_what_a_chat_function_cannot_say_is_named(extra: Any, field: str) -> None:
    problems = ConversionProblems()
    convert_tools_to_chat([{**FLAT, **extra}], problems)
    assert refused_field(problems) == field


def test_options_that_are_off_say_nothing() -> None:
    problems = ConversionProblems()
    assert convert_tools_to_chat([{**FLAT, "defer_loading": False, "output_schema": None}], problems) == [
        NESTED
    ]
    assert not problems


@pytest.mark.parametrize(
    ("responses_choice", "chat_choice"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "f"}}],
                },
            },
        ),
    ],
)
def test_each_choice_has_its_counterpart(responses_choice: Any, chat_choice: Any) -> None:
    problems = ConversionProblems()
    assert convert_tool_choice_to_chat(responses_choice, problems) == chat_choice
    assert convert_tool_choice_to_responses(chat_choice, problems) == responses_choice
    assert not problems


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        ("any", "tool_choice"),
        (3, "tool_choice"),
        ({"type": "web_search"}, "tool_choice.type"),
        ({"type": "function"}, "tool_choice.name"),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, "tool_choice.tools"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "mcp"}]}, "tool_choice.tools[0].type"),
    ],
)
def test_a_choice_that_chat_lacks_is_named(choice: Any, field: str) -> None:
    problems = ConversionProblems()
    convert_tool_choice_to_chat(choice, problems)
    assert refused_field(problems) == field


def test_only_a_demand_needs_tools() -> None:
    for choice in (None, "auto", "none", "required", {"type": "function"}):
        problems = ConversionProblems()
        check_choice_without_tools(choice, problems)
        assert bool(problems) is (choice not in (None, "auto", "none"))
