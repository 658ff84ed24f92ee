"""An engine that dies in the middle of a run, and an engine that takes half a minute for an answer."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine._distributions import parse_distribution
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rows.keys import FAILURE_CLASS_KEY
from tests.chaos.faulty_gym import MODEL, faulty_run, task, tell
from tests.e2e.gym_run import GymRun

BUDGET_S = 20.0
"""`retry_s` of the model server: how long it waits for an engine that is away."""
STOPPING_S = 2.0
"""Seconds that a run may exceed its budget."""
DRIP_S = 30.0
_WITHIN_BUDGET = f"++{MODEL}.responses_api_models.vllm_model.retry_s={BUDGET_S}"


def seconds_until_named(run: GymRun, url: str, within_s: float) -> float:
    """Return the seconds until the command reports on stderr that `url` is gone."""
    started = time.monotonic()
    while time.monotonic() - started < within_s:
        if f"{url} refuses the connection" in run.errors:
            return time.monotonic() - started
        time.sleep(0.01)
    raise AssertionError(f"{url} was not named within {within_s} s: {run.errors[-2000:]}")


def test_a_dead_engine_is_named_at_once_and_the_run_ends_within_its_budget(tmp_path: Path) -> None:
    tasks = [task(f"task {number}") for number in range(2000)]
    options = EngineOptions(latency_s=parse_distribution("uniform:0.02:0.1"))
    with (
        EngineProcess(options) as engine,
        faulty_run(tmp_path, engine.base_url, tasks, _WITHIN_BUDGET) as run,
    ):
        run.wait_for(100)
        died = time.monotonic()
        os.kill(engine.pid, signal.SIGKILL)
        named_s = seconds_until_named(run, engine.base_url, 5.0)
        exit_code, summary = run.finish(BUDGET_S + 30)
        ended_s = time.monotonic() - died
    tell(
        "dead engine",
        first_message_s=round(named_s, 2),
        ended_s=round(ended_s, 1),
        budget_s=BUDGET_S,
        failures=len(run.failures()),
        lines_on_stderr=len(run.errors.splitlines()),
        exit_code=exit_code,
    )
    assert named_s < 1.0
    assert BUDGET_S - STOPPING_S < ended_s < BUDGET_S + STOPPING_S
    assert exit_code in (1, 3)
    assert summary["stop"]["code"] == "systemic_failure"
    assert {failure[FAILURE_CLASS_KEY] for failure in run.failures()} == {"engine:connect_refused"}


def test_an_answer_that_drips_for_half_a_minute_arrives(tmp_path: Path) -> None:
    options = EngineOptions(faults=[{"do": "drip", "over_s": DRIP_S, "nth": 1}])
    with EngineProcess(options) as engine, faulty_run(tmp_path, engine.base_url, [task("drip")]) as run:
        exit_code, _ = run.finish(120)
    (row,) = run.rows()
    tell("drip", act_s=row["_ng_timing"]["act"], exit_code=exit_code)
    assert exit_code == 0
    assert row["_ng_timing"]["act"] >= DRIP_S
    assert row["_ng_outcome"] == "completed"
