"""Random sequences of verbs on real runs that are killed in between: nothing is lost, and nothing happens twice.

NEMO_GYM_TEST_SEEDS is the number of sequences; each is made in one placement. The simulator plays 200 of them
(`tests/simulation/test_control.py`).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.controlled_run import ask, build_scripted_run
from tests.e2e.gym_run import GymRun, read_lines
from tests.waiting import wait_until

SEEDS = int(os.environ.get("NEMO_GYM_TEST_SEEDS", "6"))
TASKS, REPEATS = 20, 6
STARTS = 3
"""Starts of a run that are killed, before the one that ends it."""
_VERBS = ("pause", "resume", "cancel", "requeue", "set", "set", "drain")
_REFUSALS = frozenset({"not_in_flight", "none_failed", "run_draining"})


def send_random(run: GymRun, chance: random.Random) -> str | None:
    """Send a random request, and return its verb if it was accepted; None if it was refused, or not answered."""
    verb = chance.choice(_VERBS[:-1] if chance.random() < 0.8 else _VERBS)
    try:
        state = ask(run).body
        body: dict[str, object] = {"dry_run": chance.random() < 0.1}
        if verb == "cancel":
            body["rollouts"] = [chance.choice([*state["in_flight"], "7"])]
        elif verb == "set":
            body |= {"num_samples_in_parallel": chance.randint(1, 12), "max_attempts": chance.randint(1, 3)}
        answer = ask(run, verb, **body)
    except OSError:  # it has ended, or was killed
        return None
    assert answer.status == 200 or answer.code in _REFUSALS, answer
    return verb if answer.status == 200 and answer.body["changes"] and not body["dry_run"] else None


def play_start(run: GymRun, chance: random.Random, *, is_last: bool) -> list[str]:
    """Start the run, send requests, and kill it, or let the last start end. Returns the accepted verbs."""
    accepted: list[str] = []
    with run:
        wait_until(lambda: run.process.poll() is not None or is_reachable(run))
        for _ in range(chance.randint(2, 10)):
            time.sleep(chance.uniform(0.0, 0.3))
            if (verb := send_random(run, chance)) is not None:
                accepted.append(verb)
        if not is_last and run.process.poll() is None:
            run.process.send_signal(signal.SIGKILL)
            return accepted
        end_by_control(run)
    return accepted


def is_reachable(run: GymRun) -> bool:
    try:
        return ask(run).status == 200
    except OSError:
        return False


def end_by_control(run: GymRun) -> None:
    """Resume the run if it is paused, and wait for its end."""
    while run.process.poll() is None:
        try:
            ask(run, "set", num_samples_in_parallel=24)
            ask(run, "resume")
        except OSError:
            return
        finally:
            time.sleep(0.2)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost_or_made_twice(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    placement = ("process", "inline")[seed % 2]
    accepted: Counter[str] = Counter()
    resumed: tuple[str, ...] = ()
    for number in range(STARTS + 1):
        overrides = (f"+placement={placement}", "+num_samples_in_parallel=6", *resumed)
        run = build_scripted_run(tmp_path, TASKS, REPEATS, 0.05, *overrides)
        accepted.update(play_start(run, chance, is_last=number == STARTS))
        resumed = ("+resume_from_cache=true",)
    last = build_scripted_run(tmp_path, TASKS, REPEATS, 0.05, f"+placement={placement}", *resumed)
    with last:
        exit_code, _ = last.finish(300)
    assert exit_code == 0, last.errors[-3000:]
    rows = Counter((row["_ng_task_index"], row["_ng_rollout_index"]) for row in last.rows())
    assert rows == Counter((task, repeat) for task in range(TASKS) for repeat in range(REPEATS))
    events = read_lines(last.output.with_name("rollouts_events.jsonl"))
    kept = Counter(str(event["verb"]) for event in events)
    assert not accepted - kept, "each accepted request is an event"
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in processes, "no server outlives its run"
    sys.stdout.write(f"seed {seed}, {placement}: {dict(kept)}\n")
