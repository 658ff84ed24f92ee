"""The letter that ends a text: behind a sentence, an arrow, or a comma and "option"."""

from __future__ import annotations

import pytest

from resources_servers.mcqa.choices import ChoiceFormat, read_choice
from resources_servers.mcqa.option_texts import Options

CITIES = {"A": "London", "B": "Paris", "C": "Berlin", "D": "Madrid"}
PLANETS = {"A": "Mercury", "B": "Venus", "C": "Earth", "D": "Mars"}
WITH_GOLD = {"A": "London", "B": "Paris", "C": "Berlin", "D": "Madrid", "J": "Gold"}
LAW = {"A": "A contract", "B": "A tort", "C": "A crime", "D": "An agreement"}

CASES: dict[str, tuple[tuple[Options, str, str | None], ...]] = {
    "last letter": (
        (CITIES, "The capital of Spain is Madrid. D", "D"),
        (CITIES, "The capital of Spain is Madrid. D.", "D"),
        (CITIES, "The capital of Spain is Madrid. (D)", "D"),
        (CITIES, "The capital of Spain is Madrid. **D**", "D"),
        (CITIES, "It was founded long ago by the Moors.\nThe capital of Spain is Madrid. D", "D"),
        (CITIES, "It is the seat of the Spanish king. D", "D"),
        (CITIES, "The seat of the British king is London. A", "A"),
        (CITIES, "The capital of Spain is Madrid. A", None),
        (CITIES, "Paris is a city. A", None),
        (CITIES, "The lack of vitamin C", None),
        (CITIES, "We should follow Plan B", None),
        (CITIES, "He got grade A.", None),
        (CITIES, "It is caused by hepatitis B.", None),
        (CITIES, "A is London. B is Paris. C", None),
        (CITIES, "A: London is in England. B: Paris is in France. C", None),
        (CITIES, "The book is by George R. R. Martin and Daniel A. B", None),
        (CITIES, "It was said by Prof. D", None),
        (CITIES, "See Fig. B", None),
        (CITIES, "The blood group was not A. B", None),
        (CITIES, "She lives in St. D", None),
        (CITIES, "Is it Madrid? D", "D"),
        (CITIES, "Not Madrid. D", None),
    ),
    "link": (
        (WITH_GOLD, "Au → gold → J", "J"),
        (CITIES, "Spain → Madrid → D", "D"),
        (CITIES, "Spain's capital is Madrid → D", "D"),
        (CITIES, "Spain's capital is Madrid -> (D)", "D"),
        (CITIES, "Spain's capital is Madrid => option D", "D"),
        (CITIES, "Spanish capital ⇒ D.", "D"),
        (CITIES, "A → B → C", None),
        (CITIES, "A + B → C", None),
        (CITIES, "The path is A -> D", None),
        (CITIES, "reactant A → product D", None),
        (CITIES, "x → y → D", None),
        (CITIES, "Spain → Madrid → A", None),
        (CITIES, "It is not Madrid → D", None),
        (CITIES, "Spain's capital is Madrid — option D.", "D"),
        (CITIES, "Spain's capital is Madrid - option (D).", "D"),
        (CITIES, "Spain's capital is Madrid, option D.", "D"),
        (PLANETS, "Venus, option B.", "B"),
        (CITIES, "Madrid, choice D", "D"),
        (
            LAW,
            "When two persons come to a common understanding, this is called an agreement — option (D).",
            "D",
        ),
        (CITIES, "We can rule out Madrid, option D.", None),
        (CITIES, "It is not Madrid, option D.", None),
        (CITIES, "The trap is Madrid, option D.", None),
        (CITIES, "The capital is Berlin, not Madrid, option D.", None),
        (CITIES, "Some say Madrid, option D.", None),
        (CITIES, "It is Berlin, unlike Madrid — option D.", None),
        (CITIES, "Paris, option D.", None),
        (CITIES, "Either Madrid, option D, or Berlin, option C.", None),
        (CITIES, "Berlin, option C, or Madrid, option D.", None),
        (CITIES, "I considered Madrid, option D.", None),
        (CITIES, "Let us check Madrid, option D.", None),
        (CITIES, "It could be Madrid, option D.", None),
        (CITIES, "Next comes Madrid, option D.", None),
    ),
}
"""Options, a text, and the letter that it chooses."""


@pytest.mark.parametrize("kind", CASES)
def test_lenient_reads_the_letter_that_a_text_chooses(kind: str) -> None:
    read = {text: read_choice(text, options, ChoiceFormat.LENIENT) for options, text, _ in CASES[kind]}
    assert read == {text: letter for _, text, letter in CASES[kind]}
