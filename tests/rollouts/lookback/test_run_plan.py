"""Plans in plain words."""

from __future__ import annotations

import random
from pathlib import Path
from random import Random
from statistics import NormalDist, fmean, variance

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.lookback.run_plan import describe_plan, make_plan
from nemo_gym.rollouts.lookback.run_table import read_run_table
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import failure_row, rows_of_agents, scored_row, store


def test_a_plan_from_assumptions() -> None:
    text = "\n".join(describe_plan(make_plan(tasks=200, repeats=4, rate=0.7, difference=0.02, width=0.01)))
    assert "rewards of 0 and 1, all tasks solved in 70% of the rollouts" in text
    assert "200 tasks, 4 rollouts each: 800 rollouts." in text
    assert "±3.2 points" in text
    assert "must differ by 6.4 points" in text
    assert "A difference of 2 points needs" in text
    assert "--until ±0.01 takes about" in text


@pytest.mark.parametrize(
    ("tasks", "rate", "repeats"), [(60, 0.5, 10), (60, 0.5, 1), (200, 0.7, 4), (25, 0.1, 8)]
)
def test_a_plan_for_all_tasks_like_these_is_never_too_narrow(tasks: int, rate: float, repeats: int) -> None:
    """The interval of tasks that are always solved or never is that of as many tosses of one coin."""
    plan = make_plan(tasks=tasks, repeats=repeats, rate=rate, generalizes=True, width=0.04, difference=0.05)
    assert plan.half_width == pytest.approx(1.96 * (rate * (1 - rate) / tasks) ** 0.5, rel=1e-3)
    assert plan.half_width == plan.clustered_half_width
    rng, errors = random.Random(tasks), []
    for _ in range(4000):
        solved = sum(rng.random() < rate for _ in range(tasks))
        errors.append(abs(solved / tasks - rate) > plan.half_width)
    assert sum(errors) / 4000 < 0.08
    assert (plan.repeats_for_width, plan.repeats_for_difference) == (None, None)
    text = "\n".join(describe_plan(plan))
    assert f"{rate:.0%} of the tasks solved in every rollout" in text
    assert f"An interval of ±4 points cannot be shown with {tasks} tasks" in text


def test_rewards_that_agree_promise_no_certainty(tmp_path: Path) -> None:
    (path,) = store_models(tmp_path, {"sure": 1.0}, tasks=10, repeats=4)
    plan = make_plan(run=path, repeats=4, width=0.02, difference=0.05)
    share = 1 - 0.05 ** (1 / 20)  # of pairs that may differ
    assert plan.half_width == pytest.approx(1.96 * (share / 2 / 40) ** 0.5, rel=1e-3)
    assert plan.clustered_half_width > plan.half_width
    assert plan.sequential_rollouts is not None
    assert plan.sequential_rollouts > 500
    assert "which agree within each task: their spread is the largest" in "\n".join(describe_plan(plan))


def test_one_task_is_no_sample_of_tasks() -> None:
    with pytest.raises(ConfigError, match="one task says nothing about others"):
        make_plan(tasks=1, repeats=4, generalizes=True)


def test_a_plan_names_the_interval_of_the_tables_too(tmp_path: Path) -> None:
    (path,) = store_models(tmp_path, {"small": 0.5}, tasks=60)
    plan = make_plan(run=path, repeats=4)
    cell = read_run_table([path]).runs[0].cells["quiz"]
    assert cell.low is not None
    assert cell.high is not None
    assert plan.clustered_half_width == pytest.approx((cell.high - cell.low) / 2, rel=0.03)
    points = 100 * plan.clustered_half_width
    told = f"Tables of runs and comparisons show the interval of all tasks like these: ±{points:.2g} points"
    assert told in "\n".join(describe_plan(plan))
    assert "at most ±6.9 points" in "\n".join(describe_plan(make_plan(tasks=200, repeats=4)))


def test_one_task_says_nothing_about_others(tmp_path: Path) -> None:
    (path,) = store_models(tmp_path, {"small": 0.5}, tasks=1)
    assert make_plan(run=path).half_width > 0
    with pytest.raises(ConfigError, match="one task, which says nothing about others"):
        make_plan(run=path, generalizes=True)


def test_a_plan_from_a_run(tmp_path: Path) -> None:
    one, other = store_models(tmp_path, {"small": 0.5, "large": 0.6}, tasks=50)
    plan = make_plan(run=one, repeats=8)
    assert (plan.tasks, plan.tokens_per_rollout) == (50, 25.0)
    assert 0.2 < plan.within < 0.3
    general = make_plan(run=one, against=other, repeats=8, generalizes=True, difference=0.001)
    assert general.smallest_difference >= plan.smallest_difference
    assert "output tokens" in "\n".join(describe_plan(general))


def test_too_few_tasks_are_told(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (one,) = store_models(tmp_path, {"a": 0.5}, tasks=40)
    plan = make_plan(run=one, generalizes=True, width=0.001)
    if plan.between:
        assert plan.repeats_for_width is None
        assert "cannot be shown with 40 tasks" in "\n".join(describe_plan(plan))
    assert plan.sequential_rollouts is None


def test_what_a_plan_needs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs the number of tasks"):
        make_plan()
    (once,) = store_models(tmp_path, {"once": 0.5}, repeats=1)
    with pytest.raises(ConfigError, match="tells nothing of their spread"):
        make_plan(run=once)
    others = tmp_path / "others"
    others.mkdir()
    (few,) = store_models(others, {"few": 0.5}, tasks=1)
    (many,) = store_models(others, {"many": 0.5})
    with pytest.raises(ConfigError, match="share fewer than two tasks"):
        make_plan(run=many, against=few, generalizes=True)


def test_the_tasks_of_two_agents_count_once(tmp_path: Path) -> None:
    rng = Random(3)
    rewards = {
        agent: [[float(rng.random() < rate) for _ in range(4)] for _ in range(60)]
        for agent, rate in (("a", 0.3), ("b", 0.7))
    }
    path = store(tmp_path / "both.jsonl", rows_of_agents(rewards))
    alone = [store(tmp_path / f"{name}.jsonl", rows_of_agents({name: rewards[name]})) for name in "ab"]
    plan = make_plan(run=path, repeats=4)
    within = fmean(variance(own) for tasks in rewards.values() for own in tasks)
    assert plan.tasks == 60
    assert plan.half_width == pytest.approx(NormalDist().inv_cdf(0.975) * (within / 4 / 60) ** 0.5)
    assert "60 tasks, 4 rollouts each: 240 rollouts" in "\n".join(describe_plan(plan))
    of_one = [make_plan(run=each, repeats=4) for each in alone]
    assert plan.between == pytest.approx(fmean(each.between for each in of_one)), (
        "agents' means are no spread of tasks"
    )
    against = make_plan(run=path, against=path, repeats=4, generalizes=True)
    assert against.tasks == 60
    assert against.smallest_difference <= make_plan(run=path, repeats=4, generalizes=True).smallest_difference


def test_the_tasks_of_two_environments_are_one_sample(tmp_path: Path) -> None:
    rows = [scored_row(task, n, float(n % 2), agent="xy"[task % 2]) for task in range(10) for n in range(2)]
    assert make_plan(run=store(tmp_path / "out.jsonl", rows), repeats=2).tasks == 10


def test_a_plan_from_an_interrupted_run_tells_the_tasks_that_it_leaves_out(tmp_path: Path) -> None:
    failures = [failure_row(task, 0) for task in (3, 4)]
    rows = [scored_row(task, repeat, reward=float(repeat)) for task in range(3) for repeat in range(2)]
    path = store(tmp_path / "run.jsonl", rows, failures)
    plan = make_plan(run=path)
    assert plan.tasks == 3
    told = f"note: {path}: tasks of the run without a reward, which the plan leaves out: 2;"
    assert any(line.startswith(told) for line in describe_plan(plan))
    whole = store(tmp_path / "whole.jsonl", rows)
    assert make_plan(run=whole).notes == []
