"""Conclusions that are drawn from several premises, and those that only copy them."""

from __future__ import annotations

import pytest

from resources_servers.reasoning_gym.conclusions import find_models, is_drawn_from_several


@pytest.mark.parametrize(
    ("answer", "premises", "is_drawn"),
    [
        ("(P → R)", ["(P → Q)", "(Q → R)"], True),
        ("(¬P ∨ R)", ["(P → Q)", "(Q → R)"], True),
        ("¬P", ["(P → Q)", "¬Q"], True),
        ("¬Q", ["(P → Q)", "¬Q"], False),
        ("(¬P ∧ ¬Q)", ["(P → Q)", "¬Q"], True),
        ("(P → Q)", ["(P → Q)", "(Q → R)"], False),
        ("(¬P ∨ Q)", ["(P → Q)", "(Q → R)"], False),
        ("¬¬(P → Q)", ["(P → Q)", "(Q → R)"], False),
        ("(P → Q) ∧ (Q → R)", ["(P → Q)", "(Q → R)"], False),
        ("(P ∧ Q)", ["P", "Q"], False),
        ("(P ↔ Q)", ["P", "Q"], False),
        ("(P ∨ R)", ["(Q → P)", "Q"], False),
        ("(P ∨ Q)", ["P", "¬P"], False),
        ("(P ∧ R)", ["(P → Q)", "(Q → R)"], False),
    ],
)
def test_a_conclusion_takes_more_than_to_copy_a_premise(
    answer: str, premises: list[str], is_drawn: bool
) -> None:
    assert is_drawn_from_several(answer, premises, ["P", "Q", "R"]) is is_drawn


def test_the_models_of_a_statement_are_its_true_rows() -> None:
    assert find_models("P", ["P", "Q"]) == 0b1100
    assert find_models("(P ∧ ¬Q)", ["P", "Q"]) == 0b0100
