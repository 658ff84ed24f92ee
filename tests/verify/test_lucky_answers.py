"""A search finds the answers that win tasks whatever the task says, and no honest guess."""

from __future__ import annotations

import pytest

from nemo_gym.verify.lucky_answers import SHORT_ANSWERS, find_lucky_answers, is_same_answer

NUMBERS = [(str(number), str(number)) for number in range(3, 13)]
TRUTHS = [(str(number % 3 == 0), str(number % 3 == 0)) for number in range(12)]


def equal(task: str, answer: str) -> float:
    return float(answer.strip().casefold() == task.casefold())


def test_an_honest_verifier_has_no_lucky_answer() -> None:
    assert find_lucky_answers(NUMBERS, SHORT_ANSWERS, equal) == []
    assert find_lucky_answers(TRUTHS, SHORT_ANSWERS, equal) == []


def test_an_answer_that_wins_every_task_is_found() -> None:
    found = find_lucky_answers(
        NUMBERS, SHORT_ANSWERS, lambda task, answer: min(1.0, 1 - float(answer == "nan")) or 1
    )
    assert found
    (nan,) = find_lucky_answers(NUMBERS, SHORT_ANSWERS, lambda _, answer: float(answer == "nan"))
    assert (nan.answer, nan.won, nan.tasks, nan.mean) == ("nan", 10, 10, 1.0)


def test_much_credit_for_wrong_answers_is_found_and_little_is_not() -> None:
    def near(task: str, answer: str) -> float:
        try:
            return max(0.0, 1 - abs(int(task) - int(answer)) / 10)
        except ValueError:
            return 0.05

    lucky = find_lucky_answers(NUMBERS, SHORT_ANSWERS, near)
    assert {answer.answer for answer in lucky} >= {"6", "7", "8"}
    assert {answer.won for answer in lucky} == {0}
    assert find_lucky_answers(NUMBERS, ["x", ""], near) == []


def test_tasks_with_many_right_answers_count_every_win() -> None:
    tasks = [(str(number), None) for number in range(4)]
    assert [
        lucky.answer for lucky in find_lucky_answers(tasks, ["a", "b"], lambda _, a: float(a == "a"))
    ] == ["a"]


@pytest.mark.parametrize(
    ("own", "answer"),
    [("True", "true."), ("0.0", "0"), ("1/2", "1 / 2"), ("[1, 2]", "1 2"), ("a", "A"), ("-3", "-3.0")],
)
def test_spellings_of_one_answer_are_not_lucky(own: str, answer: str) -> None:
    assert is_same_answer(own, answer)


@pytest.mark.parametrize(
    ("own", "answer"), [("0.5", "0"), ("3", "-3"), ("True", "T"), ("nan", "inf"), ("", "x")]
)
def test_other_answers_are(own: str, answer: str) -> None:
    assert not is_same_answer(own, answer)
