"""An aim that cannot be reached is refused before the start, with the half-width that can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.plan.plan import PlanSettings
from nemo_gym.rollouts.run.until_reach import find_half_widths, refuse_units, refuse_unreachable
from nemo_gym.rollouts.run.until_units import DrawUnit
from nemo_gym.statistics.sequential import Draw, SequentialMean
from tests.rollouts.doubles import write_dataset
from tests.rollouts.run.test_until_units import target_of


def units_of(count: int) -> list[DrawUnit]:
    return [DrawUnit(task, 1, (0,)) for task in range(count)]


def test_repeats_reach_any_width_of_the_mean_of_these_tasks() -> None:
    refuse_units(target_of("±0.1%"), units_of(2))


@pytest.mark.parametrize(
    ("refuse", "message"),
    [
        (lambda: refuse_units(target_of("±1%", max_rollouts=100), units_of(9)), "is at least ±0.025"),
        (lambda: refuse_units(target_of("±1%", generalize=True), units_of(300)), r"about ±0.071 wide"),
        (lambda: refuse_units(target_of("±1%", generalize=True), units_of(1)), "one task says nothing"),
        (
            lambda: refuse_units(target_of("a differs from b", max_rollouts=1), [DrawUnit(0, 2, (0, 1))]),
            "less than the 2 rollouts of one draw",
        ),
    ],
)
def test_refusals(refuse: Callable[[], None], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        refuse()


def test_a_width_that_is_promised_is_not_refused() -> None:
    refuse_units(target_of("±1%", max_rollouts=400), units_of(9))
    refuse_units(target_of("±10%", generalize=True), units_of(300))
    refuse_units(target_of("a differs from b", max_rollouts=10), [DrawUnit(0, 2, (0, 1))])


def test_a_ceiling_that_suffices_only_if_rewards_agree_is_told(caplog: pytest.LogCaptureFixture) -> None:
    refuse_units(target_of("±9%", max_rollouts=200), units_of(60))
    assert not caplog.text
    refuse_units(target_of("±3%", max_rollouts=200), units_of(60))
    assert f"is ±{1.25 * 1.96 * (0.25 / 200) ** 0.5:.3f}" in caplog.text


def test_the_tasks_of_a_plan_are_counted(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "tasks.jsonl", 20)
    with pytest.raises(ConfigError, match="these 20 tasks"):
        refuse_unreachable(target_of(generalize=True), PlanSettings((DatasetFile(path),)), 1)


def test_copies_of_tasks_promise_no_narrower_interval(tmp_path: Path) -> None:
    path = write_dataset(tmp_path / "tasks.jsonl", 60)
    path.write_bytes(3 * path.read_bytes())
    plan, width = PlanSettings((DatasetFile(path),)), 1.25 * 1.96 * (0.25 / 60) ** 0.5
    with pytest.raises(ConfigError, match=f"these 60 tasks .* about ±{width:.3f} wide"):
        refuse_unreachable(target_of("±9%", generalize=True), plan, 1)


def test_no_interval_is_narrower_than_the_best() -> None:
    mean = SequentialMean(1, 0.02)
    for _ in range(400):
        mean.add(Draw(0, 1.0, 1.0, 0.01, 1.0, 1.0))
    best, worst = find_half_widths(400)
    assert (mean.interval.high - mean.interval.low) / 2 >= best
    assert best < worst
