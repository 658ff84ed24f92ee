"""The value that the last sentence of a text states, and sentences that state none."""

from __future__ import annotations

import pytest

from nemo_gym.verify.answers import AnswerForm, final_answer
from nemo_gym.verify.conclusions import find_conclusion

STATED = (
    ("The angle equals **120°**.", "120°"),
    ("The probability is ½.", "½"),
    ("The polynomial is **x² + 1**", "x² + 1"),
    ("The ratio of boys to girls is **2 to 3**.", "2 to 3"),
    ("The angle is 36° 52′.", "36° 52′"),
    ("168 - 95 = 73, so 73 rolls are left.", "73"),
    ("3 * 4 = 12\nSo Tom has 12 pens in total.", "12"),
    ("Therefore, $ab = 6$.", "ab = 6"),
    ("So the trip takes 2.5 hours.\n\nI hope this helps!", "2.5"),
    ("That makes 1,000 people.", "1,000"),
    ("The roots are 3 and 4.", "3 and 4"),
    ("There are infinitely many solutions.", "infinitely many solutions"),
    ("So it falls on a **Monday**.", "Monday"),
    ("We add.\n\n4 + 8 = 12", "4 + 8 = 12"),
    ("Result: 5", "5"),
    ("x = 5", "x = 5"),
    ("**5**", "5"),
    ("Yes, the series converges.", "Yes"),
)
NOT_STATED = (
    "There are about 12 pens.",
    "Maybe there are 12 pens.",
    "Are there 12 pens?",
    "There are at least 12 pens.",
    "There are 12 or 13 pens.",
    "There are 12 pens and 13 books.",
    "So there are not 12 pens.",
    "Suppose there are 12 pens.",
    "Next we divide by 12.",
    "If there are 12 pens, he is glad.",
    "So Tom has 12 pens in",
    "The result lies between 6 and 8.",
    "So Tom has 12 pens in the first box and 5 in the second, which makes 17 in total.",
    "Possible answers: 1, 2, 3.",
    "Let $x=5$ be the number of boxes.",
    "The question asks for 12.",
    "The train arrives at 5:30.",
    "See chapter 12.3.4 of it.",
    "He needs 12 pens.",
    "Consider **12**.",
    "We multiply.\n\n3.",
    "Step 2",
    "So $x > 12$ or more.",
    "Das sind nicht 12.",
    "\\boxed{}",
    "Yes or no, I can not tell.",
    "Yes, but only if x > 0.",
    "I do not know.",
    "5",
    "3/4",
    "We multiply.\n\n5",
    "",
)


@pytest.mark.parametrize(("text", "value"), STATED)
def test_the_only_value_of_the_last_sentence_is_stated(text: str, value: str) -> None:
    assert find_conclusion(text) == value


@pytest.mark.parametrize("text", NOT_STATED)
def test_a_guess_a_bound_a_plan_and_several_values_state_nothing(text: str) -> None:
    assert find_conclusion(text) is None


def test_a_conclusion_counts_only_without_a_mark_and_as_its_own_form() -> None:
    assert final_answer("So 73 rolls are left.") == ("73", AnswerForm.SENTENCE)
    assert final_answer("Answer: 5\n\nSo 73 rolls are left.") == ("5", AnswerForm.LINE)
    assert final_answer("So 73 rolls are left.", [AnswerForm.BOXED, AnswerForm.LINE]) is None
