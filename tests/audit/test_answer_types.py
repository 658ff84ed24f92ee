from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.audit.answer_types import AnswerType, WrittenForm, find_answer, list_forms, read_question


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
        ({"initial_count": 3}, AnswerType.UNKNOWN, ""),
        ({"expected_answer": ""}, AnswerType.UNKNOWN, ""),
    ],
)
def test_the_type_is_found_from_the_row(members: dict[str, Any], kind: AnswerType, gold: str) -> None:
    answer = find_answer(members)
    assert (answer.type, answer.gold) == (kind, gold)


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
