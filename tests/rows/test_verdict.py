"""Every reader gives a row the same verdict.

`verdicts.tsv` has a line for every combination of outcome, reward, failure class and incomplete details. The columns
`collector` to `viewer` are the verdicts of version 0.1.0, before the readers shared one definition; `now` is today's.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nemo_gym.client import Rollout
from nemo_gym.export.report import LeftOut, Report
from nemo_gym.export.rollouts import RolloutFiles
from nemo_gym.failures import Boundary, Failure, Outcome
from nemo_gym.metrics import aggregate, compute_pass_majority_metrics, read_record
from nemo_gym.metrics.hooks import group_by_task
from nemo_gym.rollouts.lookback.health.row_rules import bad_reward, is_truncated
from nemo_gym.rollouts.lookback.health.rows import CheckedRow
from nemo_gym.rollouts.output.row_index import build_entry
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, Scored, classify
from nemo_gym.rollouts.tracking.tracked import build_sample
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.verdict import (
    EndReason,
    describe_failure,
    is_failed,
    is_judge_failure,
    is_masked,
    is_reward,
    is_scored,
    read_failure,
    read_outcome,
    read_policy_outcome,
    read_reward,
)
from tests.rollouts.stored_runs import failure_row, judge_failure_row

CASES = Path(__file__).with_name("verdicts.tsv")
MASKS: tuple[dict[str, Any], ...] = ({}, {"_ng_masked": True}, {"mask_sample": True})


class Case(NamedTuple):
    """A row, described by its members, and its verdict."""

    outcome: str
    reward: str
    failure_class: str
    incomplete: str
    now: str

    def row(self, **more: Any) -> dict[str, Any]:
        details = None if self.incomplete == "-" else {"reason": self.incomplete}
        row = {
            "_ng_task_index": 0,
            "_ng_rollout_index": 0,
            "responses_create_params": {"input": "q"},
            "agent_ref": {"type": "responses_api_agents", "name": "agent"},
            "response": {"output": [], "incomplete_details": details},
        }
        if self.reward != "-":
            row["reward"] = math.nan if self.reward == "nan" else json.loads(self.reward)
        if self.outcome != "-":
            row["_ng_outcome"] = self.outcome
        if self.failure_class != "-":
            row["_ng_failure_class"] = self.failure_class
        return row | more


def read_cases() -> list[Case]:
    with CASES.open(encoding="utf-8") as file:
        lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            Case(*(each[name] for name in ("outcome", "reward", "class", "incomplete", "now")))
            for each in lines
        ]


def show(outcome: str, reward: float | None) -> str:
    return str(outcome) if reward is None else f"{outcome} {reward:g}"


def of_collector(row: dict[str, Any]) -> str:
    result = classify(PlannedAttempt(RolloutId(0, 0), "agent", b"{}"), AgentAnswer(row))
    return show(result.outcome, result.reward) if isinstance(result, Scored) else "failed"


def of_metrics(row: dict[str, Any]) -> str:
    record = read_record(row)
    reward = record.measurements.get("reward")
    assert record.is_scored is (reward is not None)
    assert aggregate([row])["agent_metrics"]["count/scored"] == record.is_scored
    assert bool(group_by_task([row])) is record.is_scored
    scores = compute_pass_majority_metrics([[row]])[1]
    assert scores == [[{} if reward is None else {"accuracy": reward}]]
    return show(record.outcome, reward)


def of_client(row: dict[str, Any]) -> str:
    rollout = Rollout(row)
    assert (rollout.failure is None) is (rollout.reward is not None)
    return show(rollout.outcome, rollout.reward)


def of_viewer(row: dict[str, Any]) -> str:
    entry = build_entry(row)
    return show(str(entry.labels["outcome"]), entry.numbers.get("reward"))


def of_tracker(row: dict[str, Any]) -> str:
    _, _, _, reward, outcome, _, _ = build_sample(row)
    return show(outcome, None if math.isnan(reward) else reward)


READERS: tuple[Callable[[dict[str, Any]], str], ...] = (
    of_collector,
    of_metrics,
    of_client,
    of_viewer,
    of_tracker,
)


def test_the_cases_are_all_combinations() -> None:
    cases = read_cases()
    parts = [{case[place] for case in cases} for place in range(4)]
    assert len(cases) == math.prod(map(len, parts)) == 144


@pytest.mark.parametrize("masks", MASKS, ids=("unmasked", "masked", "mask_sample"))
@pytest.mark.parametrize("read", READERS)
def test_every_reader_gives_the_verdict_of_the_table(
    read: Callable[[dict[str, Any]], str], masks: dict[str, Any]
) -> None:
    verdicts = {case: read(case.row(**masks)) for case in read_cases()}
    collected = {case: case.now if " " in case.now else "failed" for case in verdicts}
    assert verdicts == (collected if read is of_collector else {case: case.now for case in verdicts})


def test_exports_take_the_scored_rows_that_are_not_masked(tmp_path: Path) -> None:
    cases = [(case, masks) for case in read_cases() if case.reward != "nan" for masks in MASKS]
    rows = [case.row(**masks) | {"_ng_rollout_index": place} for place, (case, masks) in enumerate(cases)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = Report()
    groups = list(RolloutFiles([path]).groups(report))
    taken = {member.repeat: show(member.outcome, member.reward) for member in groups[0].members}
    assert taken == {
        place: case.now for place, (case, masks) in enumerate(cases) if " " in case.now and not masks
    }
    assert report.read == len(rows)
    assert report.left_out[LeftOut.MASKED] == sum(" " in case.now and bool(masks) for case, masks in cases)


def test_the_health_check_agrees() -> None:
    for case in read_cases():
        checked = CheckedRow(1, RolloutId(0, 0), case.row())
        assert (bad_reward(checked) is None) is (" " in case.now)
        if " " in case.now:
            is_cut = case.now.startswith("truncated") or case.incomplete != "-"
            assert is_truncated(checked) is is_cut


def test_masked_rows_are_scored() -> None:
    for masks in MASKS:
        row = {"reward": 1.0, **masks}
        assert is_masked(row) is bool(masks)
        assert read_reward(row) == 1.0


@pytest.mark.parametrize("value", [0, -1.5, 10**30])
def test_numbers_are_rewards(value: float) -> None:
    assert is_reward(value)


@pytest.mark.parametrize("value", [True, False, None, "1", [1], {}, math.nan, math.inf, -math.inf, 10**400])
def test_other_values_are_no_rewards(value: object) -> None:
    assert not is_reward(value)
    assert not is_scored({"reward": value})
    assert read_failure({"reward": value}) is not None


@pytest.mark.parametrize("outcome", [[], {}, 1, True, "", "scored"])
def test_an_outcome_of_another_type_is_a_failure(outcome: object) -> None:
    row = {"reward": 1.0, "_ng_outcome": outcome}
    assert is_failed(row)
    assert read_outcome(row) is Outcome.FAILED


# Rows as 0.5.1 and 0.7.0 of the reference write them.
OF_OTHER_GYMS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("0.5.1, scored", {"reward": 1.0, "response": {"output": []}}, "completed 1"),
    (
        "0.5.1, cut",
        {"reward": 0.0, "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
        "truncated 0",
    ),
    (
        "0.7.0, scored",
        {"reward": 1.0, "mask_sample": False, "failure_kind": None, "response": {}},
        "completed 1",
    ),
    (
        "0.7.0, failed judge",
        {"reward": 0.0, "_ng_failure_class": "judge_failed", "mask_sample": True, "response": {}},
        "failed",
    ),
    ("0.7.0, masked", {"reward": 0.0, "mask_sample": True, "failure_kind": "agent_run_error"}, "completed 0"),
    ("0.7.0, failed", {"_ng_failure_class": "timeout_exceeded", "_ng_failure_terminal": True}, "failed"),
)


@pytest.mark.parametrize(
    ("row", "verdict"), [case[1:] for case in OF_OTHER_GYMS], ids=[case[0] for case in OF_OTHER_GYMS]
)
def test_rows_of_other_gyms(row: dict[str, Any], verdict: str) -> None:
    whole = {"_ng_task_index": 0, "_ng_rollout_index": 0, "responses_create_params": {"input": "q"}, **row}
    assert {read(dict(whole)) for read in READERS} == {verdict}


def test_the_outcome_of_the_policy_is_independent_of_the_verdict() -> None:
    cut = {"response": {"incomplete_details": {"reason": "max_output_tokens"}}}
    assert read_policy_outcome(judge_failure_row(0)) is Outcome.COMPLETED
    assert read_policy_outcome(judge_failure_row(0, _ng_end_reason="max_steps")) is Outcome.TRUNCATED
    assert read_policy_outcome(cut) is Outcome.TRUNCATED
    assert read_policy_outcome({"_ng_end_reason": ["odd"], **cut}) is Outcome.TRUNCATED


@pytest.mark.parametrize("reason", EndReason)
def test_an_end_reason_decides_the_outcome_of_its_row(reason: EndReason) -> None:
    assert read_policy_outcome({"_ng_end_reason": reason.value}) is reason.outcome


def test_a_judges_failure_with_its_response_can_be_judged_again() -> None:
    assert is_judge_failure(judge_failure_row(0))
    assert not is_judge_failure(failure_row(0, kind="judge_failed"))
    assert not is_judge_failure(failure_row(0, response={}))


def test_the_stated_failure_is_taken_whole() -> None:
    failure = Failure(Boundary.ENGINE, "gone", "the engine is gone", retryable=True, peer="http://e")
    row = {"_ng_failure_class": failure.kind, "_ng_failure": failure.to_wire()["error"]}
    assert read_failure(row) == failure


def test_a_failure_of_another_gym_is_made_of_its_fields() -> None:
    failure = describe_failure(
        {"_ng_failure_class": "judge_failed", "_ng_failure_judge_error": "no label"}, agent="mine"
    )
    assert (failure.boundary, failure.code, failure.peer) == (Boundary.JUDGE, "judge_failed", "mine")
    assert failure.message == "judge_failed: no label"
    assert not describe_failure({"_ng_failure_class": "x", "_ng_failure_terminal": True}).retryable


def test_a_row_without_a_score_says_what_it_lacks() -> None:
    assert "it has no `reward`" in describe_failure({}).message
    assert "its `reward` is null" in describe_failure({"reward": None}, agent="mine").message
    assert (
        "has the outcome `cancelled`" in describe_failure({"reward": 1.0, "_ng_outcome": "cancelled"}).message
    )
