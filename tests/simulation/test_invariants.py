"""Invariants on invented runs. `test_planted_bugs.py` checks them on real bugs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import orjson
import pytest

from simulation import draw
from simulation.environment import draw_task, right_reward
from simulation.events import AttemptId, Ended, Event, Kind, Verdict
from simulation.faults import AGENT, ENVIRONMENT, GENERATE, VERIFY, CallFault, FaultKind
from simulation.files import FilesRecover
from simulation.invariants import (
    RUN_PLACE,
    CountsAgree,
    FailuresHaveCauses,
    NothingLost,
    NothingTwice,
    RewardsAreTrue,
)
from simulation.monitor import Invariant

TASKS = [draw_task(Random(number), number) for number in range(2)]
SCENARIO = replace(draw(0), tasks=2, repeats=1, rollout_timeout_s=45.0)
REWARDS = [right_reward(task) for task in TASKS]
COUNTS = {"finished_before": 0, "completed": 2, "truncated": 0, "failed": 0}


def row(task: int, **fields: Any) -> bytes:
    identity = {"_ng_task_index": task, "_ng_rollout_index": 0, "_ng_attempt_index": 0}
    scored = {"session": f"session {task}", "reward": REWARDS[task]}
    return orjson.dumps(identity | TASKS[task] | scored | fields)


def failure(task: int, *, kind: str = "engine", terminal: bool = True, **fields: Any) -> bytes:
    identity = {"_ng_task_index": task, "_ng_rollout_index": 0, "_ng_attempt_index": 0}
    stated = {"type": kind, "code": "broken", "message": "it broke", "retryable": True}
    return orjson.dumps(identity | {"_ng_failure_terminal": terminal, "_ng_failure": stated} | fields)


def ended(rows: list[bytes], failures: tuple[bytes, ...] = (), **fields: Any) -> Event:
    is_whole = len(rows) == len(TASKS)
    given: dict[str, Any] = {
        "start": 0,
        "how": "complete" if is_whole else "partial",
        "exit_code": 0 if is_whole else 3,
        "rows": tuple(rows),
        "failures": failures,
        "damaged": (),
        "counts": tuple({**COUNTS, "completed": len(rows), "failed": len(failures)}.items()),
        "mean_reward": None,
        "is_last": False,
        **fields,
    }
    return Event(100.0, Kind.ENDED, "collector", detail=Ended(**given))


def scored(task: int) -> Event:
    verdict = Verdict(f"session {task}", REWARDS[task])
    return Event(1.0, Kind.SCORED, ENVIRONMENT, AttemptId(0, task, 0, 0), detail=verdict)


def with_fault(task: int, kind: FaultKind, seconds: float = 0.0) -> Event:
    place = GENERATE if kind is not FaultKind.NO_REWARD else VERIFY
    return Event(
        1.0, Kind.FAULT, " ".join(place), AttemptId(0, task, 0, 0), 1, CallFault(place, 1, kind, seconds)
    )


def problems(invariant: Invariant, *events: Event) -> list[str]:
    return [problem for problem in map(invariant.observe, events) if problem is not None]


def test_a_whole_run_violates_no_invariant() -> None:
    whole = scored(0), scored(1), ended([row(0), row(1)], mean_reward=sum(REWARDS) / 2)
    invariants = (
        NothingTwice(),
        NothingLost(SCENARIO),
        CountsAgree(SCENARIO),
        FailuresHaveCauses(SCENARIO),
        RewardsAreTrue(TASKS),
        FilesRecover(),
    )
    assert [problems(invariant, *whole) for invariant in invariants] == [[]] * len(invariants)


def test_a_rollout_with_two_rows_is_found() -> None:
    assert problems(NothingTwice(), ended([row(0), row(0)])) == ["task 0, repeat 0 has 2 rows"]


def test_a_rollout_with_neither_row_nor_failure_is_lost() -> None:
    (problem,) = problems(NothingLost(SCENARIO), ended([row(0)]))
    assert problem.endswith("task 1, repeat 0 has neither a row nor a failure")
    assert problems(NothingLost(SCENARIO), ended([row(0)], (failure(1, terminal=False),)))
    assert not problems(NothingLost(SCENARIO), ended([row(0)], (failure(1),)))


def test_a_row_that_is_gone_later_is_lost() -> None:
    before, after = ended([row(0)], (failure(1),)), ended([row(1)], (failure(0),))
    assert problems(NothingLost(SCENARIO), before, after) == [
        "rows that had been written are no longer in the file"
    ]


def test_the_last_start_has_no_excuse() -> None:
    assert problems(NothingLost(SCENARIO), ended([row(0)], (failure(1),), is_last=True))


@pytest.mark.parametrize(
    "wrong", [{"counts": tuple({**COUNTS, "completed": 1}.items())}, {"exit_code": 3}, {"mean_reward": 0.123}]
)
def test_a_summary_that_disagrees_with_the_files_is_found(wrong: dict[str, Any]) -> None:
    assert problems(CountsAgree(SCENARIO), ended([row(0), row(1)], **wrong))


def test_a_reward_that_no_verifier_gave_to_this_attempt_is_found() -> None:
    rows = ended([row(0), row(1)])
    assert problems(RewardsAreTrue(TASKS), scored(0), rows)
    assert problems(RewardsAreTrue(TASKS), scored(0), scored(1), ended([row(0), row(1, reward=0.25)]))
    assert problems(RewardsAreTrue(TASKS), scored(0), scored(1), ended([row(0), row(1, session="session 0")]))


def test_a_row_of_another_task_is_found() -> None:
    mixed = row(1, responses_create_params=TASKS[0]["responses_create_params"])
    (problem,) = problems(RewardsAreTrue(TASKS), scored(0), scored(1), ended([row(0), mixed]))
    assert problem.endswith("is another task's")


@pytest.mark.parametrize("reward", [0.0, None])
def test_a_failure_with_a_reward_is_found(reward: float | None) -> None:
    assert problems(RewardsAreTrue(TASKS), ended([], (failure(0, reward=reward),)))


def test_a_failure_needs_a_fault_that_the_gym_need_not_get_over() -> None:
    failed = ended([], (failure(0),))
    assert problems(FailuresHaveCauses(SCENARIO), failed)
    assert problems(FailuresHaveCauses(SCENARIO), with_fault(0, FaultKind.HTTP_503), failed)
    assert problems(FailuresHaveCauses(SCENARIO), with_fault(1, FaultKind.HTTP_500), failed)
    assert not problems(FailuresHaveCauses(SCENARIO), with_fault(0, FaultKind.HTTP_500), failed)


def test_an_attempt_runs_out_of_time_only_where_a_fault_takes_it() -> None:
    late = ended([], (failure(0, kind="deadline"),))
    assert problems(FailuresHaveCauses(SCENARIO), with_fault(0, FaultKind.HTTP_503), late)
    assert not problems(FailuresHaveCauses(SCENARIO), with_fault(0, FaultKind.SLOW, 90.0), late)


def test_a_server_that_is_away_when_an_attempt_begins_is_a_cause() -> None:
    crashed = Event(0.0, Kind.CRASHED, AGENT, detail=30.0)
    began = Event(20.0, Kind.SENT, RUN_PLACE, AttemptId(0, 0, 0, 0), 1)
    began_later = began._replace(at=50.0)
    failed = ended([], (failure(0),))
    assert not problems(FailuresHaveCauses(SCENARIO), crashed, began, failed)
    assert problems(FailuresHaveCauses(SCENARIO), crashed, began_later, failed)


def test_a_run_that_its_own_files_stop_is_found() -> None:
    refused = ended(
        [], how="refused", exit_code=None, counts=(), error="manifest_damaged: out_run.json is broken"
    )
    assert problems(FilesRecover(), refused) == ["the run can't be resumed: out_run.json is broken"]
    unreachable = ended([], how="refused", exit_code=None, counts=(), error="connect_refused: no listener")
    assert not problems(FilesRecover(), unreachable)
    assert problems(FilesRecover(), ended([row(0)], damaged=(b'{"_ng_task_index":1,"_ng_rol' + row(1),)))
