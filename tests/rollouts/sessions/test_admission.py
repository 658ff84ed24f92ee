from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.rollouts.sessions.admission import Capacity, SampledStep
from nemo_gym.rollouts.sessions.options import UsefulOptions
from tests.rollouts.sessions.books import options


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({}, None),
        ({"groups_per_step": 4}, None),
        ({"staleness": {"bound": 2}}, None),
        ({"groups_per_step": 4, "staleness": {"bound": 2}}, 12),
        ({"groups_per_step": 4, "staleness": {"bound": 2}, "reserve": 3}, 9),
    ],
)
def test_a_bound_and_a_step_give_the_capacity(given: dict[str, Any], most: int | None) -> None:
    assert Capacity.build(options(**given)).most == most


def test_places_are_taken_and_given_back() -> None:
    capacity = Capacity(1)
    capacity.take()
    assert capacity.count_free() == 0
    with pytest.raises(AssertionError):
        capacity.take()
    capacity.give_back()
    assert capacity.count_free() == 1
    assert Capacity(None).count_free() is None


def test_useful_groups_beyond_a_step_count_for_the_next() -> None:
    step = SampledStep(UsefulOptions(stop_at=2), useful=3, sampled=9)
    assert step.is_full
    step.begin()
    assert (step.useful, step.sampled) == (1, 1)
    assert not step.is_full
