"""Expected answers that contain the mark of an answer are refused where no answer equals them."""

from __future__ import annotations

import pytest

from nemo_gym.failures import InputError
from nemo_gym.verify.task_rows import find_marked_answer, invalid_row, refuse_unequalled

MARKED = {
    "#### 18": "18",
    "16 - 3 - 4 = 9 eggs.\nShe makes 9 * 2 = 18.\n#### 18": "18",
    "She makes 9 * 2 = 18. #### 18": "18",
    "#### Paris": "Paris",
    "Therefore, x is \\boxed{\\frac{1}{2}}.": "\\frac{1}{2}",
    "\\fbox{3}": "3",
    "<answer>18</answer>": "18",
    "The answer is 18.": "18",
    "So the final answer is 18": "18",
    "9 * 2 = 18. The answer is 18": "18",
    "**Answer:** 7": "7",
    "La réponse est 5": "5",
    "答案是 18": "18",
}
PLAIN = [
    "18",
    "$18",
    "x = 5",
    "Paris",
    "A: Paris",
    "### 5",
    "no answer is right",
    "question and answer: a dialogue",
]


@pytest.mark.parametrize(("expected", "marked"), MARKED.items())
def test_the_marked_answer_is_found(expected: str, marked: str) -> None:
    assert find_marked_answer(expected) == marked


@pytest.mark.parametrize("expected", PLAIN)
def test_a_plain_answer_has_no_mark(expected: str) -> None:
    assert find_marked_answer(expected) is None


async def test_one_that_the_verifier_accepts_in_no_form_is_refused_with_the_answer() -> None:
    async def accepts_nothing(text: str) -> bool:
        return False

    for expected, marked in MARKED.items():
        with pytest.raises(InputError, match="no answer equals") as caught:
            await refuse_unequalled(expected, accepts_nothing)
        assert caught.value.failure.param == "expected_answer"
        assert caught.value.failure.remedy == f"Write only the answer: {marked!r}."
    for expected in PLAIN:
        await refuse_unequalled(expected, accepts_nothing)


@pytest.mark.parametrize("accepted", ["#### 18", "\\boxed{18}"])
async def test_one_that_the_verifier_accepts_in_one_form_is_fine(accepted: str) -> None:
    async def accepts(text: str) -> bool:
        return text == accepted

    await refuse_unequalled("#### 18", accepts)


def test_the_error_names_the_field_and_the_remedy() -> None:
    error = invalid_row("options: missing", param="options")
    assert str(error) == "The task row cannot be graded: options: missing. Correct it in the dataset."
    assert (error.failure.code, error.failure.param) == ("invalid_row", "options")


def test_a_problem_that_is_a_sentence_ends_with_one_stop() -> None:
    for problem in ("`answer` is no date", "`answer` is no date.", "`answer` is no date. "):
        assert str(invalid_row(problem, remedy="Write a date.")) == (
            "The task row cannot be graded: `answer` is no date. Write a date."
        )
