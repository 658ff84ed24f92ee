"""Sentences that say which answer another question would have."""

from __future__ import annotations

import pytest

from resources_servers.mcqa.choices import ChoiceFormat, read_choice
from resources_servers.mcqa.option_texts import Options

CITIES = {"A": "London", "B": "Paris", "C": "Berlin", "D": "Madrid"}

CASES: dict[str, tuple[tuple[Options, str, str | None], ...]] = {
    "supposition": (
        (
            CITIES,
            "The answer must be **C** because it is in Germany. If it were Spain, the answer would be D.",
            "C",
        ),
        (CITIES, "The answer is C. If the question were about Spain, the answer would be D.", "C"),
        (CITIES, "Answer: C\n\nHad the question asked about Spain, the answer would be D.", "C"),
        (CITIES, "**Answer: C**\n\nNote: for Spain the correct answer would have been D.", "C"),
        (CITIES, "\\boxed{C}\n\nIf the question had asked about Spain, the answer would be D.", "C"),
        (CITIES, "I choose C. If it were about Spain, I would choose D.", "C"),
        (CITIES, "The answer is C. The answer would be D if the question asked about Spain.", "C"),
        (CITIES, "Answer: C. Were it about Spain, the answer would be D.", "C"),
        (
            CITIES,
            "The correct answer is (C). Suppose the question asked about Spain. Then the answer would be D.",
            "C",
        ),
        (CITIES, "Answer: C\nOtherwise, the answer would be D.", "C"),
        (CITIES, "The capital of Spain is Madrid, so the answer would be D.", "D"),
        (CITIES, "If we look at the map, the answer would be D.", "D"),
        (CITIES, "First I thought the answer is C. But it lies in Spain, so the answer would be D.", "D"),
        (CITIES, "If I were to choose, the answer would be D.", "D"),
        (CITIES, "Without further information, the answer would be D.", "D"),
        (CITIES, "Answer: C (had it been Spain, the answer would be D).", "C"),
        (CITIES, "\\boxed{C}. If the question were about Spain, the answer would be \\boxed{D}.", "C"),
        (CITIES, "The answer is C. Wait, the question is about Spain, so the answer would be D.", "D"),
    ),
}
"""Options, a text, and the letter that it chooses."""


@pytest.mark.parametrize("kind", CASES)
def test_lenient_reads_the_letter_that_a_text_chooses(kind: str) -> None:
    read = {text: read_choice(text, options, ChoiceFormat.LENIENT) for options, text, _ in CASES[kind]}
    assert read == {text: letter for _, text, letter in CASES[kind]}
