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
    ("So the area is **5**π.", "5π"),
    ("So the train takes 5 hours.", "5"),
    ("Therefore each notebook costs $5.", "$5"),
    ("Thus the value is equal to 73.", "73"),
    ("So there are exactly 73 rolls.", "73"),
    ("Hence 12 marbles remain.", "12"),
    ("So the share is 73 percent.", "73%"),
    ("Therefore we get 73.", "73"),
    ("So he paid $4.50 in total.", "$4.50"),
    ("The temperature is -5 degrees.", "-5"),
    ("So Anna earned **73** dollars.", "73"),
    ("So each child gets 2½ cookies.", "2½"),
    ("The angle between the vectors is 90°.", "90°"),
    ("**Total cost: $1250.50**", "$1250.50"),
    ("**Number of ways:** 73", "73"),
    ("The two terms cancel, so the sum is zero.", "zero"),
    ("Therefore the number of real roots is twenty-three.", "twenty-three"),
    ("Die Höhe beträgt also 12 Zentimeter.", "12"),
    ("La réponse cherchée vaut donc 73.", "73"),
    ("Portanto, a área é igual a 18 unidades.", "18"),
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
    "**Note 3: see page 12**",
    "**Given: 12**",
    "It is one of them.",
    "So the answer is that one.",
    "So it lies between 6 and 8.",
    "Die Höhe beträgt nicht 12 Zentimeter.",
    "We multiply.\n\n5",
    "",
)
CHANGED = (
    "The value is negative 73.", "So the temperature is minus 5 degrees.", "The profit is 5 million dollars.",
    "So she has 5 dozen eggs.", "The length is the square root of 5.", "So the number of ways is 5!.",
    "So it took 5 and a half hours.", "So it is divisible by 12.", "Therefore, see page 73.",
    "Therefore 73 is ruled out.", "So it is half of 73.", "So it is twice 73.", "So the area is 5 squared.",
    "So we get 5 times pi.", "So it is everything but 73.", "I was born in 1990.", "So twice the number is 12.",
    "So a third of them is 12.",
    "So there are 5 thousand people.",
    "So the value is negative **73**.",
    "So the area is $5$ times $x$.",
    "Therefore **73** is impossible.",
    "Thus x is congruent to **12**.", "So the answer is on page **73**.", "So she has **5** dozen eggs.",
    "So the result is 5 plus one.", "So x lies on the circle of radius 12.", "Hence by Lemma 5.", "So it exceeds 73.",
    "So the sum of the digits is 12, and the number is nineteen.", "I have 5 minutes.", "I used 5 methods.",
    "It takes 2 minutes to read.", "Please give me 5.", "So there are 5 in three boxes.", "So Tom has 5 more.",
)  # fmt: skip


@pytest.mark.parametrize(("text", "value"), STATED)
def test_the_only_value_of_the_last_sentence_is_stated(text: str, value: str) -> None:
    assert find_conclusion(text) == value


@pytest.mark.parametrize("text", NOT_STATED)
def test_a_guess_a_bound_a_plan_and_several_values_state_nothing(text: str) -> None:
    assert find_conclusion(text) is None


@pytest.mark.parametrize("text", CHANGED)
def test_a_number_that_the_words_beside_it_change_or_name_states_nothing(text: str) -> None:
    assert find_conclusion(text) is None


def test_a_conclusion_counts_only_without_a_mark_and_as_its_own_form() -> None:
    assert final_answer("So 73 rolls are left.") == ("73", AnswerForm.SENTENCE)
    assert final_answer("Answer: 5\n\nSo 73 rolls are left.") == ("5", AnswerForm.LINE)
    assert final_answer("So 73 rolls are left.", [AnswerForm.BOXED, AnswerForm.LINE]) is None
