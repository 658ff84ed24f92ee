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


def test_a_conclusion_says_whether_a_text_states_nothing_or_leaves_its_choice_open() -> None:
    assert find_conclusion("It is a metalloid.", OPTIONS) is None
    assert find_conclusion("I choose B or C.", OPTIONS) == Conclusion(None)
    assert find_conclusion("I choose B. It has five protons.", OPTIONS) == Conclusion("B")
