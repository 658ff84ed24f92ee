from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.audit.answer_types import (
    AnswerType,
    WrittenForm,
    find_answer,
    find_function,
    list_forms,
    read_conversation,
    read_foreign_type,
    read_question,
    split_set,
)
from nemo_gym.failures import ConfigError


@pytest.mark.parametrize(
    ("members", "kind", "gold"),
    [
        ({"expected_answer": "1,319"}, AnswerType.NUMBER, "1,319"),
        ({"expected_answer": 42}, AnswerType.NUMBER, "42"),
        ({"answer": "\\frac{1}{2}"}, AnswerType.EXPRESSION, "\\frac{1}{2}"),
        ({"expected_answer": "C", "options": [{"A": "x"}, {"C": "y"}]}, AnswerType.CHOICE, "C"),
        ({"expected_answer": "A", "options": ["x", "y"]}, AnswerType.CHOICE, "A"),
        ({"expected_answer": ["carbon dioxide", "CO2"]}, AnswerType.TEXT, "carbon dioxide"),
        ({"verifier_metadata": {"ground_truth": "Lima"}}, AnswerType.TEXT, "Lima"),
        ({"sql": "SELECT 1", "answer": "x"}, AnswerType.SQL, "SELECT 1"),
        ({"expected_answer": "12", "answer_type": "text"}, AnswerType.TEXT, "12"),
        ({"expected": {"a": 1}}, AnswerType.JSON, ""),
        ({"expected": {"a": 1}, "schema_type": "xml"}, AnswerType.UNKNOWN, ""),
        ({"expected": [{"a": 1}]}, AnswerType.UNKNOWN, ""),
        ({"answer": '{"code": "x", "label": 1}'}, AnswerType.UNKNOWN, '{"code": "x", "label": 1}'),
        (
            {"expected_answer": "2024-03-03/2024-03-05", "answer_type": "text"},
            AnswerType.TEXT,
            "2024-03-03/2024-03-05",
        ),
        ({"expected_answer": "C", "answer_type": None}, AnswerType.TEXT, "C"),
        ({"verifier_metadata": {"expected_answer": "12", "answer_type": "text"}}, AnswerType.TEXT, "12"),
        (
            {"expected_answer": '[{"name": "f", "arguments": {}}]', "answer_type": "text"},
            AnswerType.TEXT,
            '[{"name": "f", "arguments": {}}]',
        ),
        ({"expected_answer": "x", "answer_type": "unknown"}, AnswerType.UNKNOWN, ""),
        ({"initial_count": 3}, AnswerType.UNKNOWN, ""),
        ({"expected_answer": ""}, AnswerType.UNKNOWN, ""),
    ],
)
def test_the_type_is_found_from_the_row(members: dict[str, Any], kind: AnswerType, gold: str) -> None:
    answer = find_answer(members)
    assert (answer.type, answer.gold) == (kind, gold)


@pytest.mark.parametrize("declared", ["date", "Text", "", 3, ["text"], {"type": "text"}])
def test_a_declared_type_of_another_format_is_told_and_not_used(declared: Any) -> None:
    row = {"expected_answer": "12", "answer_type": declared}
    assert find_answer(row).type is AnswerType.NUMBER
    assert read_foreign_type(row) == str(declared)
    assert read_foreign_type({"answer_type": "text"}) is None


def test_a_set_and_a_function_under_test_are_read() -> None:
    assert split_set(find_answer({"expected_answer": "\\{1, 3, 5\\}"}).gold) == ["1", "3", "5"]
    assert split_set("{7}") == []
    row = {"verifier_metadata": {"unit_tests": {"fn_name": "f", "inputs": []}}}
    assert (find_answer(row).type, find_function(row)) == (AnswerType.CODE, "f")
    assert find_function({"unit_tests": {"inputs": []}}) is None


@pytest.mark.parametrize(
    ("declared", "gold"),
    [
        ("number", "twelve"),
        ("number", "1/2"),
        ("number", ["12", "a dozen"]),
        ("json", "no object"),
        ("calls", "f(x)"),
        ("text", {"a": 1}),
        ("text", None),
    ],
)
def test_a_declared_type_that_the_answer_cannot_have_is_refused(declared: str, gold: Any) -> None:
    with pytest.raises(ConfigError, match="and the expected answer is"):
        find_answer({"expected_answer": gold, "answer_type": declared})


def test_a_declared_json_value_is_read_from_text() -> None:
    for gold in ('{"a": [1]}', {"a": [1]}):
        assert find_answer({"expected_answer": gold, "answer_type": "json"}).value == {"a": [1]}


def test_calls_are_read_from_json_and_from_text() -> None:
    call = {"name": "send", "arguments": '{"to": "Ann"}'}
    for gold in ([call], '[{"name": "send", "arguments": {"to": "Ann"}}]'):
        answer = find_answer({"ground_truth": gold})
        assert (answer.type, answer.value) == (AnswerType.CALLS, [("send", {"to": "Ann"})])


@pytest.mark.parametrize(
    ("prompt", "form"),
    [
        ("Put it inside \\boxed{}.", WrittenForm.BOXED),
        ("Write <answer>…</answer>.", WrittenForm.TAGS),
        ("End with 'Final answer: <answer>'.", WrittenForm.FINAL),
        ("Say it.", WrittenForm.BOXED),
    ],
)
def test_the_form_that_the_prompt_asks_for_is_tried_first(prompt: str, form: WrittenForm) -> None:
    row = {"responses_create_params": {"input": [{"role": "user", "content": prompt}]}}
    assert list_forms(row, AnswerType.TEXT)[0] is form
    assert form.write("x") != "x"


def test_the_question_is_the_last_user_message() -> None:
    parts = [{"type": "input_text", "text": "second"}]
    messages = [{"role": "user", "content": "first"}, {"role": "user", "content": parts}]
    assert read_question({"responses_create_params": {"input": messages}}) == "second"
    assert read_question({"responses_create_params": {"input": "alone"}}) == "alone"
    assert (
        read_question({"responses_create_params": {"input": [{"role": "system", "content": "rules"}]}}) == ""
    )


def test_the_conversation_is_the_whole_prompt() -> None:
    messages = [{"role": "system", "content": "rules"}, {"role": "user", "content": "ask"}]
    row = {"responses_create_params": {"instructions": "be kind", "input": messages}}
    assert read_conversation(row).split("\n") == ["be kind", "rules", "ask"]
