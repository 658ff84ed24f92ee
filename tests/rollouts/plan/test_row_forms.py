"""Rows in the form of Chat Completions are named, and converted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.row_forms import convert_row, find_foreign_parts, refuse_other_form
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, TaskShaper

NESTED = {"type": "function", "function": {"name": "guess", "parameters": {"type": "object"}}}
FLAT = {"type": "function", "name": "guess", "parameters": {"type": "object"}}
MESSAGES = [{"role": "user", "content": "hi"}]
ITEM = {"type": "message", "role": "user", "content": "hi"}


@pytest.mark.parametrize(
    ("row", "places"),
    [
        (
            {"responses_create_params": {"input": "x", "tools": [FLAT, NESTED]}},
            ["responses_create_params.tools[1]"],
        ),
        ({"responses_create_params": {"messages": MESSAGES}}, ["responses_create_params.messages"]),
        ({"messages": MESSAGES, "answer": 3}, ["messages"]),
        (
            {"messages": MESSAGES, "responses_create_params": {"tools": [NESTED]}},
            ["messages", "responses_create_params.tools[0]"],
        ),
        ({"responses_create_params": {"input": "x"}, "messages": ["of the environment"]}, []),
        ({"responses_create_params": {"input": "x", "tools": [FLAT, {"type": "web_search"}, 3]}}, []),
        ({"responses_create_params": 3}, []),
    ],
)
def test_foreign_parts_are_found(row: dict[str, Any], places: list[str]) -> None:
    assert [place for place, _ in find_foreign_parts(row)] == places


def test_the_collection_refuses_such_a_row_with_its_places() -> None:
    with pytest.raises(FaultyRowError, match="Chat Completions") as raised:
        TaskShaper("agent").shape(b'{"messages": [], "answer": 1}')
    assert [fault.field for fault in raised.value.faults] == ["messages"]


@pytest.mark.parametrize(
    ("row", "task"),
    [
        (
            {"messages": MESSAGES, "tools": [NESTED], "temperature": 0.5, "answer": 3},
            {"input": [ITEM], "tools": [FLAT], "temperature": 0.5},
        ),
        ({"messages": MESSAGES, "responses_create_params": {"top_p": 0.5}}, {"input": [ITEM], "top_p": 0.5}),
        ({"responses_create_params": {"messages": MESSAGES}}, {"input": [ITEM]}),
        ({"responses_create_params": {"input": "x", "tools": [NESTED]}}, {"input": "x", "tools": [FLAT]}),
        ({"responses_create_params": {"input": "x"}}, {"input": "x"}),
        ({"input": "x", "answer": 3}, {"input": "x"}),
    ],
)
def test_rows_become_tasks_and_keep_their_other_members(row: dict[str, Any], task: dict[str, Any]) -> None:
    converted = convert_row(row)
    params = converted["responses_create_params"]
    for tool in params.get("tools", ()):
        tool.pop("strict", None)
    assert params == task
    assert ("answer" in converted) is ("answer" in row)
    TaskShaper("agent").shape_row(converted)


def test_a_conversation_with_calls_is_converted() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "guess", "arguments": "{}"}}
    messages = [
        *MESSAGES,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "no"},
    ]
    items = convert_row({"messages": messages})["responses_create_params"]["input"]
    assert [item["type"] for item in items] == ["message", "function_call", "function_call_output"]


@pytest.mark.parametrize(
    "row", [{}, {"answer": 3}, {"messages": []}, {"messages": "hi"}, {"messages": [{"role": "x"}]}]
)
def test_a_row_without_a_conversation_is_no_task(row: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="messages"):
        convert_row(row)


@pytest.mark.parametrize("line", [b"[\n", b'[{"messages": []}]\n', b"  [ {"])
def test_an_array_is_refused_once_with_the_command_that_converts_it(line: bytes) -> None:
    with pytest.raises(ConfigError, match="is a JSON array") as raised:
        refuse_other_form(Path("data/chat.json"), line)
    assert raised.value.failure.remedy == (
        "Convert it: gym dataset convert data/chat.json -o data/chat_tasks.jsonl"
    )


def test_a_row_is_no_array() -> None:
    refuse_other_form(Path("x"), b'{"a": [1]}')


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"question": "2 + 2?", "answer": "4"}, "4"),
        ({"problem": "2 + 2?", "answer": 4, "level": 1}, "4"),
        ({"prompt": "2 + 2?", "expected_answer": "4"}, "4"),
        ({"question": "2 + 2?", "answer": "Two and two\n#### 4"}, "4"),
    ],
)
def test_a_question_with_its_answer_is_found_and_converted(row: dict[str, Any], expected: str) -> None:
    (place, why), *others = find_foreign_parts(row)
    assert (place in row, others) == (True, [])
    assert "a question beside its answer" in why
    task = convert_row(row)
    assert task["responses_create_params"] == {"input": "2 + 2?"}
    assert (task["question"], task["expected_answer"], "answer" in task) == ("2 + 2?", expected, False)
    assert not [*find_foreign_parts(task)]
    assert task.get("level") == row.get("level")


@pytest.mark.parametrize(
    "row",
    [
        {"question": "2 + 2?"},
        {"question": "2 + 2?", "answer": ["4"]},
        {"question": 4, "answer": "4"},
        {"question": "2 + 2?", "answer": "4", "expected_answer": "5"},
        {"question": "2 + 2?", "answer": "4", "responses_create_params": {"input": "x"}},
    ],
)
def test_other_rows_are_no_questions(row: dict[str, Any]) -> None:
    assert not [*find_foreign_parts(row)]


def test_a_table_is_refused_with_the_command_that_converts_it() -> None:
    with pytest.raises(ConfigError, match=r"q\.csv is a table \(CSV\)") as caught:
        refuse_other_form(Path("q.csv"), b"question,answer\n")
    assert "gym dataset convert q.csv -o q_tasks.jsonl" in str(caught.value)
    refuse_other_form(Path("q.csv"), b'{"a": 1}\n')
