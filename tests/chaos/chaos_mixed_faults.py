"""500 rollouts, a tenth of the tasks failing for ever, hanging verifiers, malformed arguments, servers killed."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from pathlib import Path

from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine._distributions import parse_distribution
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rows.keys import FAILURE_CLASS_KEY
from tests.chaos.faulty_gym import AGENT, ENVIRONMENT, MODEL, faulty_run, task, tell
from tests.e2e.gym_run import check_books, rollout_of, terminal

TASKS, REPEATS = 100, 5
FAILING = frozenset(range(3, TASKS, 10))
MALFORMED = frozenset({21, 66})
HANGING = frozenset({98, 99})
"""The last ones, so that none is hit by a kill and its class is certain."""
KILL_EVERY, LAST_KILL_AT = 50, 400
TIMEOUT_S = 12


def words_of(number: int) -> str:
    kind = "failing" if number in FAILING else "malformed" if number in MALFORMED else "plain"
    return f"task {number}: {'hanging' if number in HANGING else kind}"


def test_500_rollouts_under_faults(tmp_path: Path) -> None:
    engine_options = EngineOptions(
        latency_s=parse_distribution("uniform:0.01:0.05"),
        faults=[{"do": "bad_arguments", "match": ": malformed"}],
    )
    faults = [
        {"do": "http_500", "route": "verify", "match": ": failing"},
        {"do": "hang", "route": "verify", "match": ": hanging"},
    ]
    tasks = [task(words_of(number)) for number in range(TASKS)]
    limits = [
        f"+num_repeats={REPEATS}",
        "+num_samples_in_parallel=16",
        "+max_attempts=10",
        f"+rollout_timeout_s={TIMEOUT_S}",
    ]
    started, kills = time.monotonic(), 0
    with (
        EngineProcess(engine_options) as engine,
        faulty_run(tmp_path, engine.base_url, tasks, *limits, faults=faults) as run,
    ):
        victims = itertools.cycle([ENVIRONMENT, AGENT, MODEL])
        for at in range(KILL_EVERY, LAST_KILL_AT + 1, KILL_EVERY):
            run.wait_for(at)
            run.kill(next(victims))
            kills += 1
        exit_code, _ = run.finish(180)
    lost = check_books(run, TASKS, REPEATS)
    classes = {rollout_of(failure): failure[FAILURE_CLASS_KEY] for failure in terminal(run.failures())}
    tell(
        "mixed faults",
        rollouts=TASKS * REPEATS,
        scored=len(run.rows()),
        failed=len(lost),
        classes=Counter(classes.values()),
        kills=kills,
        attempts=len(run.rows()) + len(run.failures()),
        seconds=round(time.monotonic() - started, 1),
        exit_code=exit_code,
    )
    assert exit_code == 3, run.errors
    assert {rollout.task for rollout in lost} == FAILING | HANGING
    assert len(lost) == REPEATS * len(FAILING | HANGING)
    for rollout, failure_class in classes.items():
        expected = "verifier:http_500" if rollout.task in FAILING else "deadline:rollout_deadline"
        assert failure_class == expected
    rewards = {row["_ng_task_index"]: row["reward"] for row in run.rows()}
    assert {task for task, reward in rewards.items() if reward == 0.0} == MALFORMED
