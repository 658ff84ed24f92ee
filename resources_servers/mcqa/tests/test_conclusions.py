"""The choice that a text states in a sentence, or after the mark of another one."""

from __future__ import annotations

import pytest

from resources_servers.mcqa.choices import ChoiceFormat, read_choice
from resources_servers.mcqa.conclusions import Conclusion, find_conclusion
from resources_servers.mcqa.tests.conclusion_cases import CHOSEN, NOT_CHOSEN, OPTIONS

STRICT = tuple(form for form in ChoiceFormat if form is not ChoiceFormat.LENIENT)


def choose(text: str) -> str | None:
    return read_choice(text, OPTIONS, ChoiceFormat.LENIENT)


@pytest.mark.parametrize("form", CHOSEN)
def test_lenient_reads_the_choice_that_a_text_states_last(form: str) -> None:
    missed = {text: choose(text) for text in CHOSEN[form] if choose(text) != "B"}
    assert not missed


@pytest.mark.parametrize("reason", NOT_CHOSEN)
def test_lenient_reads_no_choice_that_is_open_denied_replaced_or_something_else(reason: str) -> None:
    wrong = [text for text in NOT_CHOSEN[reason] if choose(text) == "B"]
    assert not wrong


@pytest.mark.parametrize("form", STRICT)
def test_the_other_modes_read_no_sentence(form: ChoiceFormat) -> None:
    cues = ("a cue before the name", "a name that ends its sentence", "a cue after the name", "JSON")
    assert not [text for cue in cues for text in CHOSEN[cue] if read_choice(text, OPTIONS, form)]


TRENDS = {"A": "increases", "B": "decreases", "C": "is constant", "D": "first increases, then decreases"}


@pytest.mark.parametrize(
    "text",
    [
        "I would choose D: the quantity first increases, then decreases.",
        "I'd go with D: first increases, then decreases",
        "So D: it first increases, then decreases.",
    ],
)
def test_a_text_behind_its_letter_may_hold_commas_and_the_words_of_other_options(text: str) -> None:
    assert read_choice(text, TRENDS, ChoiceFormat.LENIENT) == "D"


@pytest.mark.parametrize("beginning", ["the quantity ", "the quantity first ", "first "])
def test_a_letter_before_the_text_of_another_option_chooses_nothing(beginning: str) -> None:
    text = f"I would choose A: {beginning}increases, then decreases."
    assert read_choice(text, TRENDS, ChoiceFormat.LENIENT) is None


@pytest.mark.parametrize(
    "text",
    ["Option B ist richtig.", "Option B ist die richtige Antwort.", "L'option B est correcte.", "选项B是正确的。",
     "La opción B es correcta.", "L'opzione B è corretta.", "A opção B está correta.", "Optie B is juist."],
)  # fmt: skip
def test_a_verdict_on_an_option_may_be_in_another_language(text: str) -> None:
    assert choose(text) == "B"


@pytest.mark.parametrize(
    "text",
    ["Option B ist nicht richtig.", "Option B ist falsch.", "L'option B n'est pas correcte.", "选项B不是正确的。",
     "Wenn das so ist, wäre Option B richtig.", "La opción B no es correcta."],
)  # fmt: skip
def test_a_denial_in_another_language_chooses_nothing(text: str) -> None:
    assert choose(text) is None


def test_a_conclusion_says_whether_a_text_states_nothing_or_leaves_its_choice_open() -> None:
    assert find_conclusion("It is a metalloid.", OPTIONS) is None
    assert find_conclusion("I choose B or C.", OPTIONS) == Conclusion(None)
    assert find_conclusion("I choose B. It has five protons.", OPTIONS) == Conclusion("B")


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("The answer is C. Many say the answer is B.", "C"),
        ("The correct answer is C, although many say the answer is B.", "C"),
        ("\\boxed{C}\n\nA student might answer: B", "C"),
        ("The wrong answer is B.", None),
        ("The least likely answer is B.", None),
        ("<answer>B</answer> is wrong", None),
        ("\\boxed{B} ✗", None),
        ("Answer: B nope", None),
        ("\\boxed{B}\n\nCorrection: C.", "C"),
        ("\\boxed{B}\n\nOn second thought, I prefer C.", "C"),
        ("答案是B。等等,应该是C。", None),
        ("La réponse est B. Attendez, c'est faux.", None),
        ("정답: B 아님", None),
        ("<answer>B</answer> is right", "B"),
    ],
)
def test_another_answer_chooses_nothing_and_a_correction_counts(text: str, choice: str | None) -> None:
    assert choose(text) == choice
