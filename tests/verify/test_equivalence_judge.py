"""A judge that compares two answers in both orders."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.prompt import PromptConfig
from nemo_gym.verify.equivalence_judge import DIFFERENT_LABEL, EQUAL_LABEL, EquivalenceJudge
from tests.verify.judges import ScriptedJudge, make_judge


def make_comparer(**options: Any) -> EquivalenceJudge:
    prompt = PromptConfig(user="{question}\n{first}\n{second}")
    return EquivalenceJudge(make_judge(), prompt, "first", "second", **options)


@pytest.mark.parametrize(
    ("said", "first", "swapped", "is_equal"),
    [
        ([EQUAL_LABEL, EQUAL_LABEL], True, True, True),
        ([EQUAL_LABEL, DIFFERENT_LABEL], True, False, False),
        ([DIFFERENT_LABEL], False, None, False),
    ],
)
async def test_answers_are_equal_when_both_orders_agree(
    said: list[str], first: bool, swapped: bool | None, is_equal: bool
) -> None:
    model = ScriptedJudge(*said)
    found = await make_comparer().compare(
        model.client, expected="EXPECTED", answer="ANSWER", fields={"question": "?"}
    )
    assert (found.is_equal_first, found.is_equal_swapped, found.is_equal) == (first, swapped, is_equal)
    assert len(found.evaluations) == len(said)
    orders = [prompt.index("EXPECTED") < prompt.index("ANSWER") for prompt in model.prompts]
    assert orders == [True, False][: len(said)]


async def test_the_second_order_can_be_disabled() -> None:
    model = ScriptedJudge(EQUAL_LABEL)
    comparer = make_comparer(check_twice_swap=False)
    found = await comparer.compare(model.client, expected="a", answer="b", fields={"question": "?"})
    assert (found.is_equal, found.is_equal_swapped) == (True, None)
