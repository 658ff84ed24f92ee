"""Every verb on a running, paused, draining and finished run, in every placement: a table of what each does.

`make test-cluster` runs it on hosts in network namespaces, too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.cli import main
from tests.cluster.placements import PLACEMENTS, keys_of
from tests.e2e.controlled_run import ask, build_scripted_run, read_address
from tests.e2e.gym_run import GymRun, rollout_of, terminal
from tests.waiting import wait_until

TASKS, REPEATS, IN_FLIGHT = 10, 6, 6
LATENCY_S = 2.0
"""A rollout has four calls of it, so that a state can be looked at."""
VERBS = ("pause", "resume", "set", "cancel", "requeue", "drain")
CHANGES, NOTHING = "changes", "nothing"
"""The verb is accepted and changes the run, or there is nothing to change."""
TABLE: Mapping[str, Mapping[str, str]] = {
    "running": {
        "pause": CHANGES, "resume": NOTHING, "set": CHANGES, "cancel": CHANGES, "requeue": CHANGES, "drain": CHANGES,
    },
    "paused": {
        "pause": NOTHING, "resume": CHANGES, "set": CHANGES, "cancel": CHANGES, "requeue": CHANGES, "drain": CHANGES,
    },
    "draining": {
        "pause": "run_draining", "resume": "run_draining", "set": "run_draining", "cancel": CHANGES,
        "requeue": "run_draining", "drain": NOTHING,
    },
}  # fmt: skip
"""State → verb → its effect, or the code of its refusal. A finished run refuses all of them (`no_run`)."""


def build_body(run: GymRun, verb: str) -> dict[str, Any]:
    """Return a request that has something to do: cancel what is in flight longest, change the concurrency."""
    state = ask(run).body
    if verb == "cancel":
        return {"rollouts": [next(iter(state["in_flight"]))]}
    return {"num_samples_in_parallel": state["num_samples_in_parallel"] + 1} if verb == "set" else {}


def read_lasting_state(run: GymRun) -> tuple[Any, ...]:
    """Return what only control changes: the phase, the tuning, the failures, the events."""
    state = ask(run).body
    events = run.output.with_name("rollouts_events.jsonl")
    tuning = tuple(state[key] for key in ("num_samples_in_parallel", "max_attempts", "rollout_timeout_s"))
    return state["phase"], tuning, state["failed"], events.read_bytes() if events.exists() else b""


def check(run: GymRun, state: str, verb: str, *, dry_run: bool) -> None:
    """Check a cell of the table. A dry run answers what the verb would do, and nothing is another afterwards."""
    before, expected = read_lasting_state(run), TABLE[state][verb]
    answer = ask(run, verb, dry_run=dry_run, **build_body(run, verb))
    told = answer.code or (CHANGES if answer.body["changes"] else NOTHING)
    assert (state, verb, dry_run, told) == (state, verb, dry_run, expected), answer
    if dry_run or expected != CHANGES:
        assert read_lasting_state(run) == before, (state, verb)
    else:
        wait_until(lambda: read_lasting_state(run) != before)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_every_verb_in_every_state(
    placement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started = build_scripted_run(
        tmp_path, TASKS, REPEATS, LATENCY_S, f"+num_samples_in_parallel={IN_FLIGHT}", *keys_of(placement)
    )
    with started as run:
        wait_until(lambda: read_address(run) is not None and len(ask(run).body["in_flight"]) == IN_FLIGHT)
        for verb in ("cancel", "requeue", "set", "resume", "drain", "pause"):
            # A rollout has failed before `requeue`; `drain` is done from the pause, and `pause` leads to it.
            check(run, "running", verb, dry_run=True)
            if verb != "drain":
                check(run, "running", verb, dry_run=False)
        for verb in ("cancel", "requeue", "set", "pause", "resume", "drain"):
            check(run, "paused", verb, dry_run=True)
            if verb not in ("resume", "drain"):
                check(run, "paused", verb, dry_run=False)
        check(run, "paused", "resume", dry_run=False)
        wait_until(lambda: len(ask(run).body["in_flight"]) >= IN_FLIGHT)
        check(run, "running", "pause", dry_run=False)
        check(run, "paused", "drain", dry_run=False)
        for verb in VERBS:
            check(run, "draining", verb, dry_run=True)
            check(run, "draining", verb, dry_run=False)
        exit_code, summary = run.finish(120)
    assert (exit_code, summary["end"]) == (3, "drained"), run.errors
    verbs = [event["verb"] for event in summary["control"]]
    assert Counter(verbs) == {"cancel": 3, "requeue": 2, "set": 2, "pause": 2, "resume": 1, "drain": 1}
    check_finished(run, monkeypatch, capsys)
    settled = Counter([*map(rollout_of, run.rows()), *map(rollout_of, run.failures())])
    assert max(Counter(map(rollout_of, run.rows())).values()) == 1, "no rollout has two rows"
    assert {failure["_ng_failure_class"] for failure in terminal(run.failures())} == {
        "cancelled:cancelled_by_control"
    }
    assert len(settled) < TASKS * REPEATS, "the drain left some"


def check_finished(run: GymRun, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A finished run announces no address, and `gym ctl` refuses every verb with the way to continue it."""
    monkeypatch.chdir(run.folder)
    assert read_address(run) is None
    files = {path: path.read_bytes() for path in run.output.parent.iterdir() if path.is_file()}
    options = {"cancel": ["--rollout", "0/0"], "set": ["--concurrency", "2"]}
    for verb in VERBS:
        for dry_run in ([], ["--dry-run"]):
            with pytest.raises(SystemExit) as ended:
                main(["ctl", verb, "out/rollouts.jsonl", *options.get(verb, []), *dry_run, "--json"])
            assert ended.value.code == 2
            printed = capsys.readouterr()
            assert "no run writes out/rollouts.jsonl now" in printed.out + printed.err
    assert {path: path.read_bytes() for path in run.output.parent.iterdir() if path.is_file()} == files


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_running_run_is_drained(placement: str, tmp_path: Path) -> None:
    started = build_scripted_run(
        tmp_path, TASKS, REPEATS, 0.5, f"+num_samples_in_parallel={IN_FLIGHT}", *keys_of(placement)
    )
    with started as run:
        wait_until(lambda: read_address(run) is not None and ask(run).body["in_flight"])
        check(run, "running", "drain", dry_run=False)
        exit_code, summary = run.finish(120)
    assert (exit_code, summary["end"], summary["counts"]["cancelled"]) == (3, "drained", 0), run.errors
    assert json.loads(run.output.with_name("rollouts_events.jsonl").read_text())["verb"] == "drain"
