"""The parts that follow a run, with trackers in memory, and a whole run with the lightest real one."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.plan.compression import build_journal_path
from nemo_gym.rollouts.run.counters import RewardTotal, RunCounters
from nemo_gym.rollouts.run.options import TrackingOptions
from nemo_gym.rollouts.run.progress import Display, Pace
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rollouts.run.until_estimate import UntilEstimate
from nemo_gym.rollouts.tracking.tracked import NewSamples, Tracking, build_figures, final_figures
from nemo_gym.rollouts.tracking.tracker import Sample
from tests.rollouts.expenses import SPENT
from tests.rollouts.stored_runs import scored_row
from tests.rollouts.tracking.tracked_run import collect_and_resume


class Recorded:
    """A tracker that keeps everything, or fails at everything."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.figures: list[tuple[int, dict[str, float]]] = []
        self.samples: list[Sample] = []
        self.files: list[Path] = []
        self.ended: bool | None = None

    def _fail(self) -> None:
        if self.fails:
            raise ConnectionError("no route to the tracker")

    def log(self, figures: Mapping[str, float], step: int) -> None:
        self._fail()
        self.figures.append((step, dict(figures)))

    def add_samples(self, samples: Sequence[Sample], step: int) -> None:
        self._fail()
        self.samples += samples

    def add_files(self, paths: Sequence[Path]) -> None:
        self._fail()
        self.files += paths

    def close(self, *, is_complete: bool) -> None:
        self.ended = is_complete
        self._fail()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def line(task: int) -> bytes:
    return orjson.dumps(scored_row(task)) + b"\n"


def test_figures_are_logged_every_ten_seconds(tmp_path: Path) -> None:
    clock, tracker, shown = Clock(), Recorded(), []

    class Shown(Display):
        def show(self, counters: RunCounters, pace: Pace) -> None:
            shown.append(counters.settled)

    tracking = Tracking({"memory": tracker}, NewSamples(tmp_path / "out.jsonl", 9, is_resumed=False), Shown())
    pace, counters = Pace(clock), RunCounters(100)
    for seconds in (0.0, 4.0, 9.9, 10.0, 12.0, 20.5):
        clock.now, counters.completed = seconds, int(seconds)
        tracking.show(counters, pace)
        if tracking._pending:
            tracking._pending.result()
    assert [step for step, _ in tracker.figures] == [0, 10, 20]
    assert shown == [0, 4, 9, 10, 12, 20]
    assert tracking.every_s == 10.0
    tracking.end(None)
    assert tracker.ended is False


def test_the_mean_reward_is_a_figure_as_soon_as_there_is_one() -> None:
    counters, pace = RunCounters(10), Pace(Clock())
    assert "run/mean_reward" not in build_figures(counters, pace)
    counters.rewards["an_agent"] = RewardTotal(2, 1.0)
    figures = build_figures(counters, pace)
    assert figures["run/mean_reward"] == figures["an_agent/mean_reward"] == 0.5


def test_several_agents_have_mean_rewards_and_no_common_one() -> None:
    rewards = {"maths": RewardTotal(3, 3.0), "code": RewardTotal(1, 0.0)}
    figures = build_figures(RunCounters(10, rewards=rewards), Pace(Clock()))
    means = {name: value for name, value in figures.items() if name.endswith("mean_reward")}
    assert means == {"maths/mean_reward": 1.0, "code/mean_reward": 0.0}


def test_samples_are_the_new_complete_rows(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(line(0) + line(1)[:20])
    samples = NewSamples(path, 4, is_resumed=False)
    assert [sample[0] for sample in samples.take()] == [0]
    path.write_bytes(line(0) + line(1) + line(2))
    assert [sample[0] for sample in samples.take()] == [1, 2]
    path.write_bytes(b"".join(map(line, range(9))))
    assert [sample[0] for sample in samples.take()] == [3]
    assert samples.take() == []


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_rows_of_an_earlier_start_are_no_samples(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    pack = gzip.compress if name.endswith(".gz") else bytes
    path.write_bytes(pack(line(0) + line(1)))
    samples = NewSamples(path, 5, is_resumed=True)
    path.write_bytes(pack(line(0) + line(1) + line(2)))
    assert [sample[0] for sample in samples.take()] == [2]


def test_rows_of_a_killed_start_are_no_samples(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl.gz"
    build_journal_path(path).write_bytes(line(0) + line(1))
    samples = NewSamples(path, 5, is_resumed=True)
    build_journal_path(path).write_bytes(line(0) + line(1) + line(2))
    assert [sample[0] for sample in samples.take()] == [2]


def test_a_tracker_that_fails_is_reported_once_and_others_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "out.jsonl").write_bytes(line(0))
    broken, whole = Recorded(fails=True), Recorded()
    samples = NewSamples(tmp_path / "out.jsonl", 5, is_resumed=False)
    tracking = Tracking({"broken": broken, "whole": whole}, samples, Display())
    with caplog.at_level(logging.WARNING):
        tracking.show(RunCounters(1), Pace(Clock()))
        tracking.end(None)
    assert [record.message for record in caplog.records] == [
        "the tracker broken failed; the run goes on: no route to the tracker"
    ]
    assert (tracking.errors["broken"], len(whole.samples), whole.ended) == (3, 1, False)


@pytest.mark.parametrize(
    ("track", "message"), [("wndb", "'wndb' is none of"), ("mlflow", "pip install mlflow")]
)
def test_unknown_trackers_and_missing_packages_are_refused(
    monkeypatch: pytest.MonkeyPatch, track: Any, message: str
) -> None:
    monkeypatch.setattr("nemo_gym.rollouts.run.options.find_spec", lambda name: None)
    with pytest.raises(ValidationError, match=message):
        TrackingOptions(track=track)


async def test_a_resumed_run_keeps_its_identity_in_trackers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    first, rest = await collect_and_resume(tmp_path, "tensorboard")
    assert (first.exit_code, rest.exit_code) == (0, 0)
    starts = orjson.loads((tmp_path / "out_run.json").read_bytes())["starts"]
    assert starts[0]["settings"]["track_id"] == starts[1]["settings"]["track_id"]
    assert len(list((tmp_path / "out_tensorboard").glob("events.*"))) == 2


def test_the_end_of_a_run_with_an_aim_has_its_estimate(tmp_path: Path) -> None:
    known = UntilEstimate("±0.01", None, False, 200, True, 0.7, 0.69, 0.71, 4800, 4810, 0, 9604, 2979)
    summary = CollectSummary(
        RunFiles.from_output(tmp_path / "out.jsonl"), [], RunCounters(1), 1.0, estimate=known
    )
    figures = final_figures(summary)
    assert [figures[f"run/estimate{part}"] for part in ("", "_low", "_high")] == [0.7, 0.69, 0.71]
    assert "run/estimate" not in final_figures(replace(summary, estimate=None))


def test_expenses_are_figures_while_a_run_goes_on_and_by_part_at_its_end() -> None:
    class Spending:
        def measure(self) -> dict[str, float]:
            return {"tokens": 5.0, "cost": 0.5, "seconds": 2.0}

    counters = RunCounters(4, expenses=Spending())
    figures = build_figures(counters, Pace(Clock()))
    assert {name: figures[name] for name in figures if name.startswith("spent")} == {
        "spent/tokens": 5.0,
        "spent/cost": 0.5,
        "spent/seconds": 2.0,
    }
    summary = CollectSummary(RunFiles.from_output(Path("out.jsonl")), [], counters, 1.0, spent=SPENT)
    told = final_figures(summary)
    assert told["spent/tokens"] == 2540
    assert told["spent/judge/large (judge_model)/cost"] == 0.03
    assert told["spent/environment/quiz/seconds"] == 60.0
    assert told["spent/agent/simple_agent/tokens"] == 2540
    assert "spent/judge/large (judge_model)/seconds" not in told
