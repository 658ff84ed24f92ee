"""The accounts of a run: rollouts, tasks and the run, and what earlier starts have spent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult, Failed, classify
from nemo_gym.rollouts.run.budgets import Budgets
from nemo_gym.rollouts.run.options import BudgetOptions
from nemo_gym.rollouts.run.prices import PricedServer
from nemo_gym.rollouts.run.stopping import StopReason
from nemo_gym.transport.budget import Price, Spent, Tokens, write_spent
from nemo_gym.transport.calls import Reply
from tests.rollouts.doubles import failure, planned, scored

SERVERS = [
    PricedServer("policy_model", "mock", "policy", Price(1, 0.5, 4)),
    PricedServer("judge_model", "mock", "judge", Price(2, 2, 8)),
]
CALLS: Spent = {"policy_model": Tokens(2, 100, 40, 20), "judge_model": Tokens(1, 50, 0, 10)}


class Stops:
    def __init__(self) -> None:
        self.reasons: list[StopReason] = []

    def __call__(self, reason: StopReason) -> None:
        self.reasons.append(reason)


def build(stops: Stops | None = None, **budget: Any) -> Budgets:
    return Budgets(BudgetOptions.model_validate({"budget": budget}), SERVERS, stops or Stops())


def note(
    budgets: Budgets, task: int, spent: Spent = CALLS, result: AttemptResult | None = None
) -> AttemptResult:
    reply = Reply(200, [(b"x-ng-spent", write_spent(spent))], b"{}")
    attempt = planned(task)
    return budgets.note_reply(attempt, reply, result or scored(attempt), 0.0)


def read_left(budgets: Budgets, task: int) -> dict[str, Any]:
    left: dict[str, Any] = orjson.loads(budgets.build_headers(planned(task))["x-ng-budget"])
    return left


def test_a_row_has_what_its_rollout_has_spent() -> None:
    result = note(build(), 0)
    assert isinstance(result, AgentAnswer)
    row = classify(planned(0), result)
    assert not isinstance(row, Failed)
    written = orjson.loads(row.line)
    assert written["_ng_spent"] == {"policy_model": [2, 100, 40, 20], "judge_model": [1, 50, 0, 10]}
    assert {**written, "_ng_spent": None} == {
        **orjson.loads(scored(planned(0)).encoded or b""),
        **written,
        "_ng_spent": None,
    }


def test_all_attempts_at_a_rollout_share_its_budget_until_it_is_settled() -> None:
    budgets = build(rollout={"tokens": 500, "cost": 1.0})
    assert read_left(budgets, 0)["tokens"] == 500
    note(budgets, 0, result=failure(retryable=True))
    left = read_left(budgets, 0)
    assert left["tokens"] == 320
    assert left["cost"] == pytest.approx(1.0 - (60 + 40 * 0.5 + 80 + 100 + 80) / 1e6)
    assert left["prices"] == {"policy_model": [1, 0.5, 4], "judge_model": [2, 2, 8]}
    assert read_left(budgets, 1)["tokens"] == 500
    budgets.settle(planned(0).identity)
    assert read_left(budgets, 0)["tokens"] == 500, "a requeued rollout has its whole budget again"


def test_a_task_starts_no_rollout_after_its_budget_and_others_do() -> None:
    budgets = build(task={"tokens": 180})
    starts = budgets.limit_starts(planned(task, repeat) for task in range(2) for repeat in range(3))
    assert next(starts).identity == (0, 0)
    note(budgets, 0)
    assert [each.identity for each in starts] == [(1, 0), (1, 1), (1, 2)]
    assert list(budgets.describe()) == [
        "2 rollouts of 1 tasks were not started: the budget of their task is spent"
    ]


@pytest.mark.parametrize(
    ("limit", "message"), [({"tokens": 300}, "300 tokens"), ({"cost": 0.0004}, "a cost of 0.0004")]
)
def test_a_run_stops_after_its_budget_and_says_by_how_much_it_was_exceeded(
    limit: dict[str, float], message: str
) -> None:
    stops = Stops()
    budgets = build(stops, run=limit)
    note(budgets, 0)
    assert stops.reasons == []
    note(budgets, 1)
    assert (stops.reasons[0].code, stops.reasons[0].lets_finish) == ("budget", True)
    assert f"the budget of the run, {message}, is spent" in stops.reasons[0].message
    assert "more by rollouts that were in flight" in next(iter(budgets.describe()))


def test_a_run_counts_by_model_role_and_agent() -> None:
    budgets = build()
    note(budgets, 0)
    note(budgets, 1, result=failure())
    told = budgets.to_json()
    models = {
        each["role"]: (each["calls"], each["input"], each["cached"], each["output"])
        for each in told["models"]
    }
    assert models == {"policy": (4, 200, 80, 40), "judge": (2, 100, 0, 20)}
    assert told["tokens"] == 360 == told["agents"]["simple_agent"]["tokens"]
    assert told["cost"] == pytest.approx(sum(each["cost"] for each in told["models"]))


def test_earlier_rows_count_for_a_resumed_run(tmp_path: Path) -> None:
    result = note(build(), 0)
    assert isinstance(result, AgentAnswer)
    rows = tmp_path / "rollouts.jsonl"
    rows.write_bytes(
        (result.encoded or b"") + b"\n" + b'{"_ng_task_index":5,"_ng_rollout_index":0,"reward":1}\n'
    )
    stops = Stops()
    budgets = build(stops, run={"tokens": 200})
    budgets.note_files(rows, tmp_path / "rollouts_failures.jsonl")
    assert (budgets.to_json()["tokens"], stops.reasons) == (180, [])
    note(budgets, 1)
    assert len(stops.reasons) == 1


def test_failed_attempts_of_earlier_starts_count_too(tmp_path: Path) -> None:
    """Their lines have what they have spent, with and without an answer of the agent."""
    before = build()
    kept = Kept()
    output = before.keep(kept)
    note(before, 0, result=failure(retryable=True))
    line = orjson.dumps({"_ng_task_index": 0, "_ng_rollout_index": 0, "_ng_failure_class": "engine:down"})
    output.add_failure(line)
    output.add_failure(line)
    assert [orjson.loads(each).get("_ng_spent") for each in kept.failures] == [
        {"policy_model": [2, 100, 40, 20], "judge_model": [1, 50, 0, 10]},
        None,
    ], "a second failure has not spent the same again"
    unscored = note(
        before, 1, result=AgentAnswer({"_ng_failure_class": "judge"}, b'{"_ng_failure_class":"judge"}')
    )
    failed = classify(planned(1), unscored)
    assert isinstance(failed, Failed)
    output.add_failure(failed.to_line(planned(1), terminal=True))
    assert kept.failures[-1].count(b"_ng_spent") == 1
    failures = tmp_path / "rollouts_failures.jsonl"
    failures.write_bytes(b"".join(each + b"\n" for each in kept.failures))
    after = build()
    after.note_files(tmp_path / "rollouts.jsonl", failures)
    assert after.to_json()["tokens"] == 360 == before.to_json()["tokens"]


class Kept:
    """An output that keeps its failures."""

    def __init__(self) -> None:
        self.failures: list[bytes] = []

    def add_row(self, line: bytes) -> None:
        raise AssertionError(line)

    def add_failure(self, line: bytes) -> None:
        self.failures.append(line)


REPLAYED: Spent = {"~policy_model": CALLS["policy_model"]}
LIVE: Spent = {"policy_model": Tokens(1, 70, 0, 5)}


def test_replayed_calls_count_once_whether_the_first_attempt_has_told_of_them_or_not() -> None:
    for told in (True, False):
        budgets = build(rollout={"tokens": 500})
        if told:
            note(budgets, 0, {"policy_model": CALLS["policy_model"]}, failure(retryable=True))
        else:
            budgets.note_lost(planned(0), 0.0)
        left = orjson.loads(budgets.build_headers(planned(0), continues=True)["x-ng-budget"])
        assert left["tokens"] == 500, "the ledger of the attempt counts its replayed calls"
        note(budgets, 0, LIVE | REPLAYED)
        assert budgets.to_json()["tokens"] == 120 + 75
        assert any("ended without an answer" in each for each in budgets.describe()) is not told


def test_calls_of_a_fresh_attempt_after_a_continued_one_are_all_counted() -> None:
    budgets = build()
    note(budgets, 0, {"policy_model": CALLS["policy_model"]}, failure(retryable=True))
    budgets.build_headers(planned(0), continues=True)
    note(budgets, 0, LIVE | REPLAYED, failure(retryable=True))
    budgets.build_headers(planned(0))
    note(budgets, 0, LIVE)
    assert budgets.to_json()["tokens"] == 120 + 75 + 75


def test_an_attempt_that_was_lost_after_a_continued_one_counts_what_it_alone_had_asked() -> None:
    budgets = build()
    note(budgets, 0, {"policy_model": CALLS["policy_model"]}, failure(retryable=True))
    budgets.build_headers(planned(0), continues=True)
    budgets.note_lost(planned(0), 0.0)  # it had asked for LIVE, too
    budgets.build_headers(planned(0), continues=True)
    both = CALLS["policy_model"].plus(LIVE["policy_model"])
    note(budgets, 0, {"~policy_model": both, "judge_model": CALLS["judge_model"]})
    assert budgets.to_json()["tokens"] == 120 + 75 + 60


def test_expenses_are_told_by_environment_and_agent_with_their_models() -> None:
    budgets = Budgets(BudgetOptions(), SERVERS, Stops(), {"simple_agent": "mcqa"})
    note(budgets, 0)
    told = budgets.to_json()
    assert told["environments"] == {"mcqa": told["agents"]["simple_agent"]}
    assert told["environments"]["mcqa"]["servers"]["judge_model"]["input"] == 50
    assert told["environments"]["mcqa"]["cost"] == pytest.approx(told["cost"])


def test_an_answer_that_tells_nothing_counts_its_seconds_only() -> None:
    budgets = build(run={"tokens": 1})
    budgets.note_reply(planned(0), Reply(200, [], b"{}"), scored(planned(0)), 0.0)
    told = budgets.to_json()
    assert (told["tokens"], told["models"]) == (0, [])
    assert told["seconds"] > 0
