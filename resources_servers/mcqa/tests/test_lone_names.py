"""The option that a text names without a cue: on its first or its last line."""

from __future__ import annotations

import pytest

from resources_servers.mcqa.choices import ChoiceFormat, read_choice
from resources_servers.mcqa.option_texts import Options

CITIES = {"A": "London", "B": "Paris", "C": "Berlin", "D": "Madrid"}
ACIDS = {"A": "Hydrochloric acid", "B": "Sulfuric acid", "C": "Nitric acid", "D": "Acetic acid"}
TRENDS = {"A": "increases", "B": "decreases", "C": "remains constant", "D": "first increases, then decreases"}
PLANETS = {"A": "Mercury", "B": "Venus", "C": "Earth", "D": "Mars"}
NUMBERS = {"A": "2", "B": "4", "C": "8", "D": "16"}

CASES: dict[str, tuple[tuple[Options, str, str | None], ...]] = {
    "opening": (
        (ACIDS, "B. Sulfuric acid is the one used in lead-acid car batteries.", "B"),
        (CITIES, "B. Paris is the capital of France.", "B"),
        (CITIES, "B) Paris is the capital of France.", "B"),
        (CITIES, "B: Paris is the capital of France.", "B"),
        (PLANETS, "B) Venus is the hottest planet because of its thick atmosphere.", "B"),
        (CITIES, "B. Paris, because it is the capital of France.", "B"),
        (CITIES, "**B. Paris** is the capital of France.", "B"),
        (CITIES, "(B) Paris has been the capital since 987.", "B"),
        (CITIES, "B. Paris, the capital of France.", "B"),
        (CITIES, "b) Paris is the capital of France.", "B"),
        (CITIES, "Option B: Paris is the capital of France.", "B"),
        (
            CITIES,
            "**B) Paris**\n\nParis is the capital of France, while London is the capital of the UK.",
            "B",
        ),
        (CITIES, "B. Paris is the capital of France, while London is the capital of the UK.", "B"),
        (CITIES, "B. Paris is the capital of France. London is the capital of the United Kingdom.", "B"),
        (CITIES, "B. Paris is the capital of France.\n\nA, C and D are wrong.", "B"),
        (PLANETS, "B. Venus has a runaway greenhouse effect that makes it the hottest.", "B"),
        (PLANETS, "B. Venus – its atmosphere traps heat.", "B"),
        (NUMBERS, "B. 4, since 2 + 2 = 4.", "B"),
        (NUMBERS, "The result is 4", "B"),
        (NUMBERS, "The result is > 4", None),
        (NUMBERS, "The result is -4", None),
        (NUMBERS, "The result is 2 × 4", None),
        (NUMBERS, "The result is ≈ 4", None),
        (ACIDS, "B. Sulfuric acid contains two ionizable hydrogen atoms.", "B"),
        (CITIES, "A. London\nB. Paris\nC. Berlin\nD. Madrid", None),
        (CITIES, "A. London\nB. Paris", None),
        (CITIES, "A. London\nB. Par", None),
        (CITIES, "A. London B. Paris C. Berlin D. Madrid", None),
        (CITIES, "a) London\nb) Paris", None),
        (CITIES, "a) London b) Paris c) Berlin d) Madrid", None),
        (CITIES, "a) London\nb) Pa", None),
        (CITIES, "a) London, b) Paris", None),
        (
            CITIES,
            "A. London is the capital of the UK.\nB. Paris is the capital of France.\nC. Berlin is that of Germany.",
            None,
        ),
        (CITIES, "A. London is the capital of the UK. B. Paris is the capital of France.", None),
        (CITIES, "A. London is the capital of the UK.\nB. Paris is the cap", None),
        (CITIES, "B. Paris is not the capital of Germany; C. Berlin is.", None),
        (CITIES, "B. Paris is wrong.", None),
        (CITIES, "B. Paris is incorrect because it is in France.", None),
        (CITIES, "B. Paris can be ruled out.", None),
        (CITIES, "B. Paris or C. Berlin", None),
        (CITIES, "B. Paris might be right.", None),
        (CITIES, "B. Paris is the capital of France.\n\nWait, the question asks about Germany, so C.", "C"),
        (CITIES, "B. Paris is a tempting choice, but it is wrong.", None),
        (CITIES, "B. Paris is a city in France. So it is not B.", None),
        (CITIES, "B. Parisian food is good.", None),
        (CITIES, "B. Paris and London are capitals.", None),
        (CITIES, "B. Paris is the capital of France?", None),
        (CITIES, "B. Paris would be right if the question asked about France.", None),
        (TRENDS, "A. increases, then decreases", None),
        (TRENDS, "A. increases and then decreases", None),
    ),
    "lower case": (
        (CITIES, "b) Paris", "B"),
        (CITIES, "b. Paris", "B"),
        (CITIES, "(b) Paris", "B"),
        (CITIES, "b: Paris", "B"),
        (CITIES, "d) Madrid.", "D"),
        (CITIES, "a) London", "A"),
        (CITIES, "**b) Paris**", "B"),
        (CITIES, "b) paris", "B"),
        (CITIES, "b) London", None),
        (CITIES, "It is the capital of France.\n\nb) Paris", "B"),
        (CITIES, "b Paris", None),
        (CITIES, "not b) Paris", None),
    ),
    "after a box": (
        (CITIES, "\\boxed{A} Hmm, on second thought B is the better answer.", "B"),
        (CITIES, "\\boxed{A}\n\nHmm, on second thought B is the better answer.", "B"),
        (NUMBERS, "\\boxed{4}\n\nOption C.", "C"),
        (NUMBERS, "\\boxed{4}\nOption B.", "B"),
        (NUMBERS, "\\boxed{5}\n\nOption C.", "C"),
        (NUMBERS, "The answer is \\boxed{4}.\n\nC", "C"),
        (NUMBERS, "\\boxed{A}\n\nOn reflection, option C is better.", "C"),
        (NUMBERS, "\\boxed{A}\n\nOption C.", "C"),
        (NUMBERS, "\\boxed{A}\n\nOption C is wrong.", "A"),
        (NUMBERS, "\\boxed{A}\n\nOption C is a distractor.", "A"),
        (NUMBERS, "\\boxed{4}\n\n(B)", "B"),
        (CITIES, "Answer: C\n\n- A: London\n- B: Paris\n- D", "C"),
    ),
}
"""Options, a text, and the letter that it chooses."""


@pytest.mark.parametrize("kind", CASES)
def test_lenient_reads_the_letter_that_a_text_chooses(kind: str) -> None:
    read = {text: read_choice(text, options, ChoiceFormat.LENIENT) for options, text, _ in CASES[kind]}
    assert read == {text: letter for _, text, letter in CASES[kind]}
