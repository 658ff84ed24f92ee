"""Answer lines in other languages, and lines that correct an answer."""

from __future__ import annotations

import pytest

from nemo_gym.verify.answer_marks import ANSWER_MARKS, CORRECTED_ANSWER
from nemo_gym.verify.answers import AnswerForm, final_answer, last_answer_line


@pytest.mark.parametrize(
    "text",
    [
        "La réponse est 15.",
        "Réponse : 15",
        "Die Antwort lautet 15.",
        "Die richtige Antwort ist: 15",
        "Antwort: **15**",
        "La respuesta final es 15.",
        "Respuesta: 15",
        "La risposta è 15.",
        "A resposta correta é 15.",
        "Het antwoord is 15.",
        "Svaret är 15.",
        "Правильный ответ: 15",
        "因此，答案是 15。",
        "答案：15",
        "答えは15です。",
        "정답은 15입니다.",
    ],
)
def test_an_answer_is_read_in_other_languages(text: str) -> None:
    assert last_answer_line(text) == "15"


@pytest.mark.parametrize(
    "text",
    [
        "La réponse n'est pas 15.",
        "Die Antwort ist nicht 15.",
        "La respuesta no es 15.",
        "La respuesta es no 15.",
        "A resposta não é 15.",
        "答案不是 15。",
        "Une réponse de 15 lignes.",
        "Antworten Sie mit 15 Worten.",
    ],
)
def test_a_denial_in_another_language_is_no_answer(text: str) -> None:
    assert last_answer_line(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "Wait, it should be 14.",
        "No, it's 14.",
        "Sorry, that should have been 14.",
        "Correction: 14",
        "Oops. Make that 14.",
        "On second thought, it is 14.",
    ],
)
def test_a_correction_states_an_answer_only_where_one_is_corrected(text: str) -> None:
    assert last_answer_line(text, ANSWER_MARKS + CORRECTED_ANSWER) == "14"
    assert last_answer_line(text) is None


@pytest.mark.parametrize(
    "remark",
    [
        "Note: for n=4 the answer is 7.",
        "The textbook's answer is 7.",
        "A common wrong answer is 7.",
        "The wrong answer is 7.",
        "Many people think the answer is 7.",
        "My earlier answer is 7.",
        "A student might answer: 7",
        "Others claim the answer is 7.",
        "In the original problem, the answer is 7.",
    ],
)
def test_a_remark_on_another_answer_replaces_none(remark: str) -> None:
    assert [final_answer(f"{text}\n\n{remark}") for text in (r"\boxed{5}", "The answer is 5.")] == [
        ("5", AnswerForm.BOXED),
        ("5", AnswerForm.LINE),
    ]


@pytest.mark.parametrize(
    "text", ["The wrong answer is 7.", "A tempting answer is 7.", "Some say the answer is 7."]
)
def test_another_answer_alone_is_none(text: str) -> None:
    assert final_answer(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "The final answer is 7.",
        "**Answer: 7**",
        "Actually 7.",
        "Oops, 7.",
        "Correction: 7",
        "So the answer is 7.",
    ],
)
def test_a_plain_restatement_or_a_correction_replaces_an_answer(text: str) -> None:
    answer = final_answer(f"\\boxed{{5}}\n\n{text}")
    assert answer is not None
    assert answer.text == "7"


@pytest.mark.parametrize(
    "text", ["If x=2, the answer is 7.", "For n=4 the answer is 7.", "I think the answer is 7."]
)
def test_a_condition_counts_where_nothing_else_is_stated(text: str) -> None:
    assert last_answer_line(text) == "7"
