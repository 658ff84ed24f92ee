"""The summary of a run."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import orjson
import pytest

from nemo_gym.metrics import Planned
from nemo_gym.metrics.estimators import student_t_975
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.run.answer import classify
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.run_metrics import RunMetrics
from nemo_gym.rollouts.run.stopping import StopReason
from nemo_gym.rollouts.run.summary import CollectSummary, summarize_agents, summarize_overall
from nemo_gym.rows.identity import RolloutId
from tests.rollouts.doubles import failure, planned, scored


def summary_of(folder: Path, counters: RunCounters, **options: Any) -> CollectSummary:
    """A run of two tasks with four repeats, one of which failed and one of which is missing."""
    metrics = RunMetrics()
    for place, reward in enumerate([1.0, 1.0, 0.0, 1.0, 0.0, 0.0]):
        attempt = planned(place // 4, place % 4)
        metrics.note(attempt, classify(attempt, scored(attempt, reward)))
    attempt = planned(1, 2)
    metrics.note(attempt, classify(attempt, failure()))
    plan = {"simple_agent": Planned(2, 8)}
    agents = summarize_agents(metrics.results(plan), plan)
    return CollectSummary(
        RunFiles.from_output(folder / "out.jsonl"), agents, counters, seconds=3.0, **options
    )


def counters_of(**counts: Any) -> RunCounters:
    counters = RunCounters(8, **counts)
    counters.failures.update({"engine:engine_down": counters.failed} if counters.failed else {})
    return counters


@pytest.mark.parametrize(
    ("counters", "stop", "exit_code", "end"),
    [
        (counters_of(completed=7, truncated=1), None, 0, "complete"),
        (counters_of(finished_before=8), None, 0, "complete"),
        (counters_of(finished_before=2, completed=5, failed=1), None, 3, "partial"),
        (counters_of(completed=7, discarded=1), None, 3, "partial"),
        (counters_of(completed=7, cancelled=1), StopReason("interrupted", "x"), 3, "interrupted"),
        (counters_of(completed=8), StopReason("interrupted", "x"), 0, "interrupted"),
        (counters_of(failed=8), StopReason("systemic_failure", "x"), 1, "systemic_failure"),
    ],
)
def test_complete_partial_and_stopped_runs_have_different_exit_codes(
    tmp_path: Path, counters: RunCounters, stop: StopReason | None, exit_code: int, end: str
) -> None:
    summary = summary_of(tmp_path, counters, stop=stop)
    assert (summary.exit_code, summary.end) == (exit_code, end)


def test_the_summary_for_machines_is_json(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("{}\n")
    (tmp_path / "out_run.json").write_text("{}\n")
    data = summary_of(tmp_path, counters_of(completed=6, failed=1)).to_json()
    assert orjson.loads(orjson.dumps(data))["agents"][0]["pass_at"]["1"] > 0
    assert data["agents"][0]["short_tasks"] == {"3": 1, "4": 1}
    assert data["counts"] == {
        "planned": 8,
        "finished_before": 0,
        "completed": 6,
        "truncated": 0,
        "failed": 1,
        "cancelled": 0,
        "discarded": 0,
        "retries": 0,
        "invalid_rows": 0,
    }
    assert data["failures"] == {"engine:engine_down": 1}
    assert data["files"] == {"rows": str(tmp_path / "out.jsonl"), "run": str(tmp_path / "out_run.json")}


def test_a_run_that_must_be_complete_fails_if_a_row_is_missing(tmp_path: Path) -> None:
    assert summary_of(tmp_path, counters_of(completed=7)).exit_code == 3
    assert summary_of(tmp_path, counters_of(completed=7), must_be_complete=True).exit_code == 1
    assert summary_of(tmp_path, counters_of(completed=8), must_be_complete=True).exit_code == 0


@pytest.mark.parametrize(
    ("rewards", "interval"), [((1.0, 1.0, 0.0), (0.0, 1.0)), ((4.0, -2.0, 1.0), (-2.0, 4.0))]
)
def test_the_interval_stays_where_a_reward_can_be(
    rewards: tuple[float, ...], interval: tuple[float, float]
) -> None:
    metrics = RunMetrics()
    for task, reward in enumerate(rewards):
        metrics.note(planned(task), classify(planned(task), scored(planned(task), reward)))
    (agent,) = summarize_agents(metrics.results({}), {})
    assert agent.ci95 == interval


def test_agents_are_summarized_together() -> None:
    metrics = RunMetrics()
    for task, (agent, reward) in enumerate([("one", 1.0), ("other", 0.0), ("other", 1.0)]):
        attempt = planned(task, agent=agent)
        metrics.note(attempt, classify(attempt, scored(attempt, reward)))
    plan = {"one": Planned(1, 1), "other": Planned(2, 3)}
    average = metrics.average(plan)
    assert average is not None
    overall = summarize_overall(summarize_agents(metrics.results(plan), plan), average)
    assert (overall.agent, overall.tasks, overall.rollouts, overall.missing) == ("overall", 3, 4, 1)
    assert overall.mean_reward == 0.75, "the mean of the agents' means"
    assert RunMetrics().average({"one": Planned(1, 1)}) is None


def test_no_figure_of_several_agents_is_over_their_rollouts() -> None:
    rewards = {"one": [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]], "other": [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]]}
    metrics = RunMetrics()
    for place, (agent, tasks) in enumerate(rewards.items()):
        for task, own in enumerate(tasks):
            for number, reward in enumerate(own):
                attempt = planned(task, 2 * number + place, agent=agent)
                metrics.note(attempt, classify(attempt, scored(attempt, reward)))
    plan = {agent: Planned(3, 6) for agent in rewards}
    agents = summarize_agents(metrics.results(plan), plan)
    average = metrics.average(plan)
    assert average is not None
    overall = summarize_overall(agents, average)
    means = {agent: fmean(each for own in tasks for each in own) for agent, tasks in rewards.items()}
    assert overall.mean_reward == pytest.approx(fmean(means.values()))
    passed = [fmean(max(own) for own in tasks) for tasks in rewards.values()]
    assert overall.pass_at == {
        1: pytest.approx(100 * fmean(means.values())),
        2: pytest.approx(100 * fmean(passed)),
    }
    assert (overall.tasks, overall.rollouts, overall.short_tasks, overall.coverage) == (3, 12, {}, 100.0)
    of_tasks = [fmean(fmean(own) for own in both) for both in zip(*rewards.values(), strict=True)]
    half = student_t_975(2) * stdev(of_tasks) / 3**0.5
    assert overall.ci95 == pytest.approx((max(fmean(of_tasks) - half, 0.0), min(fmean(of_tasks) + half, 1.0)))


def test_pass_at_k_ends_where_half_of_the_tasks_have_k_rewards() -> None:
    metrics = RunMetrics()
    for task, count in enumerate([6, 3, 3, 1, 0]):
        for number in range(count):
            attempt = planned(task, number)
            metrics.note(attempt, classify(attempt, scored(attempt, float(number == 0))))
    plan = {"simple_agent": Planned(5, 15)}
    (agent,) = summarize_agents(metrics.results(plan), plan)
    assert list(agent.pass_at) == [1, 2, 3]
    assert agent.short_tasks == {1: 1, 2: 2, 3: 2}


def test_a_resume_is_suggested_only_if_it_can_help(tmp_path: Path) -> None:
    def suggested(counters: RunCounters, **options: Any) -> str:
        for task in range(counters.failed):
            counters.failure_groups.note(RolloutId(task, 0), "x", failure(**options))
        ranked = counters.failure_groups.rank_groups()
        return summary_of(tmp_path, counters, failures=ranked).next_command

    assert "gym view" in suggested(counters_of(completed=8))
    assert suggested(counters_of(completed=6, cancelled=2)).startswith("the same command with +resume")
    assert suggested(counters_of(completed=6, failed=2), retryable=True).startswith("the same command")
    assert suggested(counters_of(completed=6, failed=2)).startswith("gym eval failures")
