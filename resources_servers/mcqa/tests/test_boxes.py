"""The words around a box, in the modes that read boxes."""

from __future__ import annotations

import pytest

from resources_servers.mcqa.choices import ChoiceFormat, read_choice

GASES = {"A": "Oxygen", "B": "Argon", "C": "Nitrogen"}
FORMS = [ChoiceFormat.STRICT_BOXED, ChoiceFormat.LENIENT_BOXED, ChoiceFormat.LENIENT]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{B} is incorrect.",
        r"$\boxed{B}$ is wrong.",
        r"\boxed{\text{B}} is false",
        r"**\boxed{B}** is not the answer.",
        r"\boxed{B} isn't the answer.",
        r"\boxed{B} is not correct",
        r"\boxed{B} is clearly a mistake.",
        r"\boxed{B} can be ruled out.",
        r"\boxed{B} cannot be right.",
        r"\boxed{B}, which is wrong.",
        r"\boxed{B}. That is wrong.",
        r"\boxed{B}. No, that's not correct.",
        r"The following is wrong: \boxed{B}",
        r"So. This is incorrect: $\boxed{B}$",
        r"The wrong answer is \boxed{B}.",
        r"One might pick \boxed{B}, but that is a mistake. I can not decide.",
        r"Many students might choose \boxed{B}.",
        r"It is wrong to choose \boxed{B}.",
        r"It would be a mistake to pick option \boxed{B}",
        r"The opposite of \boxed{B}.",
        r"The answer is the opposite of \boxed{B}.",
        r"We rule out \boxed{B}.",
        r"Everything but \boxed{B}",
        r"Answer: \boxed{B} is incorrect.",
    ],
)
def test_a_box_that_the_words_around_it_deny_picks_nothing(text: str, form: ChoiceFormat) -> None:
    assert read_choice(text, GASES, form) is None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{B} is correct.",
        r"\boxed{B}, because A is wrong.",
        r"\boxed{B}. A is wrong.",
        r"\boxed{B}. The others are incorrect.",
        r"A is wrong, so it is \boxed{B}.",
        r"A and C are incorrect. The answer is \boxed{B}.",
        r"That leaves, after ruling out A and C, \boxed{B}.",
        r"The incorrect statement is \boxed{B}.",
        r"The statement that is not true is \boxed{B}.",
        r"The wrong option is therefore: $\boxed{B}$",
        r"It cannot be anything other than \boxed{B}.",
        r"It is not A but \boxed{B}",
        r"I would choose \boxed{B}.",
        r"We cannot rule out \boxed{B}.",
        r"\boxed{B} is not wrong.",
        r"\boxed{B} isn't wrong.",
        r"\boxed{A} is incorrect. The answer is \boxed{B}.",
        r"One might pick A, but that is a mistake. \boxed{B}",
        "\\boxed{B}\n\nIt is inert, and A is not the answer.",
        r"\boxed{B}, while C is tempting, but it is wrong.",
        r"\boxed{B}, since A burns. It is impossible to burn argon.",
        "\\boxed{B}.\nIt is wrong to choose A.",
        r"\boxed{B}. This is not the only noble gas.",
        "\\[\n\\boxed{B}\n\\]\nI hope it is correct.",
    ],
)
def test_other_words_around_a_box_leave_it(text: str, form: ChoiceFormat) -> None:
    assert read_choice(text, GASES, form) == "B"
