"""Words around a box that deny its content or make another quantity of it."""

from __future__ import annotations

import pytest

from nemo_gym.verify._denials import is_denied

BOX = r"\boxed{18}"


def denies(text: str) -> bool:
    start = text.index(BOX)
    return is_denied(text, start, start + len(BOX))


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{18} is wrong.",
        r"\boxed{18} is not the answer.",
        r"\boxed{18} isn't the correct answer.",
        r"$\boxed{18}$ cannot be the solution.",
        r"\boxed{18}, which is wrong.",
        r"\boxed{18}, which is a common mistake.",
        r"One might think it is $\boxed{18}$, but that is a mistake. I do not know the answer.",
        r"\boxed{18}? No, that does not work.",
        r"\boxed{18}. Wait, that's wrong.",
        r"**\boxed{18}**. No, this is incorrect.",
        r"\boxed{18} does not work.",
        r"\boxed{18} (wrong)",
        r"The following result is wrong: \boxed{18}",
        r"This is incorrect: $\boxed{18}$",
        r"The wrong answer is \boxed{18}.",
        r"Incorrect: \boxed{18}",
        r"A common mistake is \boxed{18}.",
        r"It is not \boxed{18}.",
    ],
)
def test_a_denial_before_or_after_a_box_is_found(text: str) -> None:
    assert denies(text)


@pytest.mark.parametrize(
    "text",
    [
        r"The answer is \boxed{18} or more.",
        r"\boxed{18} or fewer apples",
        r"$\boxed{18}$ and above.",
        r"The answer is at least \boxed{18}.",
        r"at most $\boxed{18}$",
        r"It is less than $\boxed{18}$.",
        r"It is greater than or equal to \boxed{18}",
        r"$-\boxed{18}$",
        r"$x = -\boxed{18}$",
        r"$2 \cdot \boxed{18}$",
        r"$\boxed{18}^2$",
        r"$\boxed{18}\pi$",
        r"$\boxed{18}!$",
    ],
)
def test_words_and_factors_that_make_another_quantity_are_found(text: str) -> None:
    assert denies(text)


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{18}. This is not surprising.",
        r"\boxed{18}. It is not possible to do better.",
        r"\boxed{18}. It is wrong to think that it is 20.",
        r"\boxed{18}. This is true for all n.",
        r"\boxed{18}, not 20.",
        r"\boxed{18}, which is not prime.",
        r"\boxed{18}. Note that 20 does not work.",
        r"\boxed{18}! No other value works.",
        r"\boxed{18}. No other value works.",
        r"\boxed{18} or, more precisely, 18 apples.",
        r"The value is not wrong. It is \boxed{18}.",
        r"Both guesses were wrong. The answer is \boxed{18}.",
        r"This is not the wrong answer: \boxed{18}",
        r"Checking at least twice, we get \boxed{18}.",
        "- \\boxed{18}",
        r"Answer - \boxed{18}",
        r"$2 \cdot \boxed{18} = 36$",
        r"$20 - 2 = \boxed{18}$",
        r"$\boxed{18}^\circ$",
        r"$\boxed{18}$!",
    ],
)
def test_ordinary_prose_around_a_box_denies_nothing(text: str) -> None:
    assert not denies(text)
