from __future__ import annotations

import json

from nemo_gym import PARENT_DIR
from tests.audit.our_cards import CARDS, EXAMPLES_ONLY, GENERATED, NOT_AUDITED

ENVIRONMENTS = {folder.parent.name for folder in (PARENT_DIR / "resources_servers").glob("*/app.py")}


def test_each_environment_has_a_card_or_a_reason() -> None:
    assert {*GENERATED, *EXAMPLES_ONLY, *NOT_AUDITED} == ENVIRONMENTS
    assert {card.stem for card in CARDS.glob("*.json")} == {*GENERATED, *EXAMPLES_ONLY}


def test_no_environment_of_ours_has_a_known_error() -> None:
    for file in CARDS.glob("*.json"):
        card = json.loads(file.read_text())
        wrong = {each["class"]: each["examples"] for each in card["classes"] if each["wrong"]}
        assert wrong == {}, file.name
