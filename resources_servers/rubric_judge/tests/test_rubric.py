"""The reward for met criteria."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from resources_servers.rubric_judge.rubric import Criterion, Rubric, rubric_reward

WEIGHTS = st.lists(st.floats(-9, 9).filter(bool), min_size=1, max_size=6).filter(
    lambda weights: max(weights) > 0
)


def rubric_of(weights: list[float]) -> list[Criterion]:
    return [Criterion(criterion="Is it so?", weight=weight) for weight in weights]


@pytest.mark.parametrize(
    ("weights", "met", "reward"),
    [
        ([1, 1], [True, False], 0.5),
        ([3, 1], [True, False], 0.75),
        ([3, 1, -2], [True, True, False], 1.0),
        ([3, 1, -2], [True, True, True], 0.5),
        ([1, -5], [True, True], 0.0),
        ([1, -5], [False, True], 0.0),
    ],
)
def test_weights(weights: list[float], met: list[bool], reward: float) -> None:
    assert rubric_reward(rubric_of(weights), met) == reward


@given(WEIGHTS, st.data())
def test_bounds_and_directions(weights: list[float], data: st.DataObject) -> None:
    rubric = rubric_of(weights)
    met = data.draw(st.lists(st.booleans(), min_size=len(weights), max_size=len(weights)))
    reward = rubric_reward(rubric, met)
    assert 0 <= reward <= 1
    assert rubric_reward(rubric, [weight > 0 for weight in weights]) == 1
    assert rubric_reward(rubric, [False] * len(weights)) == 0
    index = data.draw(st.integers(0, len(weights) - 1))
    more = [*met[:index], True, *met[index + 1 :]]
    assert (rubric_reward(rubric, more) - reward) * weights[index] >= 0


@pytest.mark.parametrize(
    "rubric",
    [
        [],
        [{"criterion": "Is it so?", "weight": 0}],
        [{"criterion": "Is it so?", "weight": "nan"}],
        [{"criterion": "Is it so?", "weight": -1}],
        [{"criterion": " "}],
        [{"weight": 1}],
        [{"criterion": "Is it so?", "pass_criteria": "MAYBE"}],
    ],
)
def test_an_unwinnable_or_ungradable_rubric_is_refused(rubric: list[dict[str, Any]]) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Rubric).validate_python(rubric)


def test_the_names_of_public_datasets_are_read() -> None:
    rubric = TypeAdapter(Rubric).validate_python([{"criteria": "A?", "points": 2}, {"question": "B?"}])
    assert [(one.criterion, one.weight) for one in rubric] == [("A?", 2.0), ("B?", 1.0)]
