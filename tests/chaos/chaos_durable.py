"""A durable run whose processes are killed at random: every rollout ends once, and hardly a token is paid twice.

NEMO_GYM_TEST_ROLLOUTS is the number of rollouts, NEMO_GYM_TEST_KILLS that of kills.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson

from nemo_gym.rows.keys import REPLAY_KEY
from tests.chaos.faulty_gym import tell
from tests.e2e.gym_run import GymRun, check_books
from tests.e2e.test_durable_run import durable_run, engine_for
from tests.our_environments import OUR_ENVIRONMENTS

ENVIRONMENT = next(each for each in OUR_ENVIRONMENTS if each.name == "example_session_state_mgmt")
TASKS = 5
ROLLOUTS = int(os.environ.get("NEMO_GYM_TEST_ROLLOUTS", "10000"))
KILLS = int(os.environ.get("NEMO_GYM_TEST_KILLS", "20"))
COLLECTOR = "collector"
VICTIMS = (COLLECTOR, "policy_model", ENVIRONMENT.name, ENVIRONMENT.agents()[0])
"""A killed collector takes the servers of its command with it."""
IN_FLIGHT = 16
MOST_PAID = 1.02
_STALLED_S = 300.0


def wait_for_rows(run: GymRun, count: int) -> bool:
    """Wait until so many rows are written. Returns False if the command ends before."""
    written, changed_at, place = 0, time.monotonic(), 0
    while written < count:
        if run.process.poll() is not None:
            return False
        if run.output.exists():
            with run.output.open("rb") as file:
                file.seek(place)
                read = file.read()
            place += len(read)
            written += read.count(b"\n")
            changed_at = time.monotonic() if read else changed_at
        assert time.monotonic() - changed_at < _STALLED_S, run.errors[-3000:]
        time.sleep(0.05)
    return True


def read_paid_and_replayed(run: GymRun) -> Iterator[tuple[int, int]]:
    """The sampled tokens and the replayed calls of every row."""
    with run.output.open("rb") as file:
        for line in file:
            row = orjson.loads(line)
            yield row["_ng_usage"]["output_tokens"], row.get(REPLAY_KEY, {}).get("calls_replayed", 0)


def test_kills_of_random_processes_lose_no_rollout_and_pay_few_tokens_twice(tmp_path: Path) -> None:
    chance = random.Random(20)
    kills_at = sorted(chance.sample(range(ROLLOUTS // 50, ROLLOUTS * 19 // 20), KILLS))
    shape = (
        f"++num_samples_in_parallel={IN_FLIGHT}",
        f"+num_repeats={ROLLOUTS // TASKS}",
        "+max_attempts=10",
        "+stop_after_identical_failures=0",
    )
    killed, begins_at = Counter[str](), 0
    with engine_for(tmp_path, environment=ENVIRONMENT, latency_s="uniform:0.002:0.02") as engine:
        run = durable_run(tmp_path / "run", engine, *shape, environment=ENVIRONMENT)
        run.start()
        try:
            for at in kills_at:
                assert wait_for_rows(run, max(at, begins_at + 1)), run.finish(60)
                victim = chance.choice(VICTIMS)
                killed[victim] += 1
                if victim == COLLECTOR:
                    run.process.kill()
                    run.process.communicate()
                    for record in (run.folder / "runtime").rglob("*.json"):
                        record.unlink()  # it names processes that are gone
                    run = durable_run(
                        tmp_path / "run", engine, *shape, "+resume_from_cache=true", environment=ENVIRONMENT
                    )
                    begins_at = run.output.read_bytes().count(
                        b"\n"
                    )  # of a start, until its first row, none is killed
                    run.start()
                else:
                    run.wait_for_servers(_STALLED_S)
                    run.kill(victim)
            wait_for_rows(run, ROLLOUTS)
            code, summary = run.finish(600)
        finally:
            run.process.kill()
            run.process.communicate()
        paid = engine.stats()["completion_tokens"]
    lost = check_books(run, TASKS, ROLLOUTS // TASKS)
    needed, replayed = map(sum, zip(*read_paid_and_replayed(run), strict=True))
    tell(
        "durable run under kills",
        rollouts=ROLLOUTS,
        killed=killed,
        scored=ROLLOUTS - len(lost),
        failed=len(lost),
        calls_replayed=replayed,
        tokens_paid_of_those_needed=round(paid / needed, 5),
        exit_code=code,
        notes=summary.get("notes"),
    )
    assert sum(killed.values()) == KILLS
    assert replayed > 0
    assert paid <= MOST_PAID * needed
