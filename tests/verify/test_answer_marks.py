"""Answer lines in other languages, and lines that correct an answer."""

from __future__ import annotations

import pytest

from nemo_gym.verify.answer_marks import ANSWER_MARKS, CORRECTED_ANSWER
from nemo_gym.verify.answers import last_answer_line


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
