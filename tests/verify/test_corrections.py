"""Words after an answer that take it back, and others that do not."""

from __future__ import annotations

import pytest

from nemo_gym.verify.corrections import find_retraction, is_crossed_out


@pytest.mark.parametrize(
    "words",
    [
        "Actually, this is incorrect: I forgot a factor.",
        "Wait, that's wrong.",
        "Sorry, that is not correct.",
        "Hmm, I made a mistake.",
        "I made an error in the second step.",
        "Oops, I miscounted the pairs.",
        "Scratch that.",
        "Please wait. No, this answer is wrong.",
        "My earlier answer was wrong.",
        "The above answer is incorrect.",
        "I take that back.",
        "Disregard the above.",
        "I was mistaken.",
        "However, this doesn't work.",
        "Hold on, that cannot be right.",
    ],
)
def test_a_retraction_is_found(words: str) -> None:
    assert find_retraction(f". {words}") is not None
    assert find_retraction(f"\n\nSome words. {words}") is not None


@pytest.mark.parametrize(
    "words",
    [
        "Since 3+4=7, this is correct.",
        "A common mistake is 14. This is incorrect because each pair counts twice.",
        "14 is wrong, because it counts each pair twice.",
        "Wait, is that right? Yes, it is.",
        "Actually, this is correct.",
        "Let me double-check: 3+4=7.",
        "If we forgot a factor, the result is wrong.",
        "It is wrong to think that it is 14.",
        "Note that the other root does not work.",
        "Many students made a mistake here.",
        "This is not surprising.",
        "Wait, that's wrong. No: it is right.",
        "The answer is reasonable.",
        "Option A is wrong. Option C is incorrect.",
        "Thus the approach without a factor is incorrect.",
    ],
)
def test_other_words_take_nothing_back(words: str) -> None:
    assert find_retraction(f". {words}") is None


def test_the_end_of_the_last_retraction_is_returned() -> None:
    words = "Wait, that's wrong. I made a mistake. So 14."
    end = find_retraction(words)
    assert end is not None
    assert words[end:] == ". So 14."


@pytest.mark.parametrize(
    "words",
    [
        "Moment, das ist falsch: 7",
        "Nein, 7.",
        "Attendez, c'est faux.",
        "Eso es incorrecto.",
        "等等,应该是7。",
        "不对,是7。",
        "Нет, 7.",
        "Isso está errado.",
        "Dat klopt niet.",
        "これは間違いです。",
        "아니, 7입니다.",
        "Aspetta, è sbagliato.",
    ],
)
def test_a_retraction_may_be_in_another_language(words: str) -> None:
    assert find_retraction(f". {words}") is not None


@pytest.mark.parametrize(
    "words",
    [
        "Das ist richtig.",
        "La opción A es incorrecta.",
        "Non-linear terms vanish.",
        "No, it has six protons.",
        "这是正确的。",
    ],
)
def test_other_words_of_another_language_take_nothing_back(words: str) -> None:
    assert find_retraction(f". {words}") is None


def test_a_mark_behind_an_answer_crosses_it_out() -> None:
    assert find_retraction(" ✗") == 2
    assert is_crossed_out("B nope")
    assert not is_crossed_out("B")
    assert not is_crossed_out("5 × 7")
