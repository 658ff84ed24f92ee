"""Rows are put together in one place."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from nemo_gym.failures import Boundary, Failure
from nemo_gym.json_objects import dump_json
from nemo_gym.rows import verdict
from nemo_gym.rows.compose import (
    RESULT_MARKS,
    STATED_FAILURE_KEYS,
    append_replay,
    assign_agent,
    assign_skills,
    attach_metadata,
    attach_response,
    attach_reward,
    compose_failure_row,
    compose_foreign_row,
    compose_reverified_row,
    compose_scored_row,
    compose_task_row,
    drop_marks,
    drop_reserved,
    drop_result,
    fail_judge,
    fail_row,
    mask,
    number_row,
    put_items,
    replace_params,
    score_fault,
    select_request,
    select_score,
    take_items,
    zero,
)
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.parts import read_agent
from nemo_gym.rows.verdict import EndReason, is_judge_failure, is_masked, is_scored, read_failure, read_reward
from nemo_gym.rows.version import ROW_VERSION
from tests.rollouts.stored_runs import judge_failure_row, scored_row

FORGED = {
    "_ng_task_index": 7,
    "_ng_rollout_index": 7,
    "_ng_row_version": "9.0",
    "_ng_attempt_index": 7,
    "_ng_outcome": "completed",
    "_ng_end_reason": "final_answer",
    "_ng_timing": {"total": 0},
    "_ng_usage": None,
    "_ng_tokens": {},
    "_ng_masked": True,
    "_ng_perf": {},
    "_ng_reverified": {},
    "_ng_anything": 1,
    "agent_ref": {"name": "other"},
}
TASK = compose_task_row("What?", metadata={"answer": 4}, params={"tools": []}, level=2)


def scored(**score: Any) -> dict[str, Any]:
    response = {"output": [], "usage": {"output_tokens": 3}}
    end, timing = EndReason.MAX_STEPS, {"total": 1.23456789}
    return compose_scored_row(TASK, score, {"note": 1}, response=response, end_reason=end, timing=timing)


def test_a_task_row_has_the_request_first() -> None:
    assert list(TASK) == ["responses_create_params", "verifier_metadata", "level"]
    assert TASK["responses_create_params"] == {"input": "What?", "tools": []}


def test_a_scored_row_is_the_task_with_its_response_and_verdict() -> None:
    row = scored(reward=0.5, responses_create_params="a copy", response="a copy", extracted="4")
    assert {key: row[key] for key in TASK} == TASK
    assert (row["reward"], row["extracted"], row["note"]) == (0.5, "4", 1)
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("truncated", "max_steps")
    assert (row["_ng_timing"], row["_ng_usage"]) == ({"total": 1.234568, "calls": ()}, {"output_tokens": 3})
    assert row["_ng_row_version"] == ROW_VERSION
    assert is_scored(row)


def test_a_failure_row_begins_with_its_identity_and_has_no_reward() -> None:
    failure = Failure(Boundary.ENGINE, "gone", "the engine is gone")
    answer = {"reward": 1.0, "_ng_outcome": "completed", "level": 2}
    row = compose_failure_row(
        RolloutId(3, 1), 2, "mine", failure, failure.kind, answer=answer, is_terminal=True, failed_at=5.0
    )
    assert list(row)[:4] == ["_ng_task_index", "_ng_rollout_index", "_ng_row_version", "_ng_attempt_index"]
    assert (row["_ng_outcome"], row["level"], row["_ng_failed_at"]) == ("failed", 2, 5.0)
    assert "reward" not in row
    assert (read_failure(row), read_agent(row)) == (failure, "mine")


def test_a_verifier_changes_neither_identity_nor_tokens_nor_timing() -> None:
    assert select_score({"reward": 1.0, "own": "x", **FORGED}) == {"reward": 1.0, "own": "x"}


@pytest.mark.parametrize("name", sorted(STATED_FAILURE_KEYS))
def test_the_failure_keys_of_the_contract_are_taken(name: str) -> None:
    assert select_score({name: "judge_failed"}) == {name: "judge_failed"}
    assert select_score({name: None}) == {}


def test_the_reader_of_failures_reads_no_others() -> None:
    texts = {key for key in verdict._ERROR_TEXT_KEYS if key.startswith("_ng_")}
    assert texts < STATED_FAILURE_KEYS


def test_a_row_that_is_verified_again_keeps_its_attempt() -> None:
    stored = scored_row(3, _ng_end_reason="max_steps", _ng_timing={"total": 2})
    row = compose_reverified_row(TASK, stored, {"reward": 0.5, **FORGED}, reward_before=1.0)
    assert (row["reward"], row["level"], row["_ng_timing"]) == (0.5, 2, {"total": 2})
    assert (row["_ng_task_index"], row["_ng_outcome"]) == (3, "truncated")
    assert row["_ng_reverified"] == {"reward_before": 1.0}


def test_the_row_of_a_failed_judge_becomes_a_scored_one() -> None:
    stored = judge_failure_row(3)
    row = compose_reverified_row(
        {"answer": 1}, stored, {"reward": 0.5, "extracted": "new"}, reward_before=None
    )
    assert (row["reward"], row["extracted"], row["answer"]) == (0.5, "new", 1)
    assert row["_ng_outcome"] == "completed"
    assert row["_ng_reverified"] == {"reward_before": None}
    assert row["response"] == stored["response"]
    assert not [key for key in row if key.startswith("_ng_failure")]


def test_a_task_is_recovered_from_a_stored_row() -> None:
    row = {**scored(reward=1.0, mask_sample=False), "_ng_task_index": 1}
    assert drop_result(row) == {**TASK, "note": 1}
    assert drop_reserved({**TASK, "_ng_task_index": 1}) == TASK
    assert select_request(assign_agent(row, "mine")).keys() == {"responses_create_params", "agent_ref"}


def test_members_of_a_task_are_replaced_without_changing_it() -> None:
    before = dict(TASK)
    assert read_agent(assign_agent(TASK, "mine")) == "mine"
    assert replace_params(TASK, {"input": "Why?"})["responses_create_params"] == {"input": "Why?"}
    assert assign_skills(TASK, {"hash": "x"})["skills_ref"] == {"hash": "x"}
    assert attach_response(TASK, {"output": []})["response"] == {"output": []}
    assert before == TASK


def test_an_identity_comes_first() -> None:
    numbered = number_row({"reward": 1.0, "_ng_task_index": 9}, RolloutId(1, 2))
    assert list(numbered.items()) == [("_ng_task_index", 1), ("_ng_rollout_index", 2), ("reward", 1.0)]


def test_a_failed_judge_is_a_failure_that_can_be_judged_again() -> None:
    row = fail_judge({"response": {"output": []}}, "no label")
    assert is_judge_failure(row)
    assert is_masked(row)
    assert read_failure(row) is not None
    assert fail_row({"reward": 1.0, "level": 2}, "judge_invalid") == {
        "_ng_failure_terminal": True,
        "level": 2,
        "_ng_failure_class": "judge_invalid",
        "_ng_outcome": "failed",
    }


def test_scores_are_masked_and_zeroed() -> None:
    assert is_masked(mask({"reward": 1.0}))
    assert zero({"reward": 1.0, "extracted": "x"}) == {"reward": 0.0, "extracted": "x"}


@pytest.mark.parametrize(
    ("reward", "expected"), [(1.0, 0.0), (0.0, 0.0), (-2.0, -2.0)], ids=["won", "lost", "below zero"]
)
def test_an_answer_that_breaks_its_verifier_wins_nothing(reward: float, expected: float) -> None:
    row = score_fault({"reward": reward, "reward_components": {"form": reward}}, "raised", "ValueError")
    assert read_reward(row) == expected
    assert sum(row["reward_components"].values()) == expected
    assert (row["answer_fault"], row["answer_fault_detail"]) == ("raised", "ValueError")


def test_the_reason_of_a_fault_is_not_that_of_the_attempt_without_output() -> None:
    verdict = {"reward": 0.0, "failure_kind": "no_answer", "failure_reason": "there is no answer"}
    row = score_fault(verdict, "raised", "ValueError: x")
    assert (row["failure_kind"], row["failure_reason"]) == (None, "raised: ValueError: x")
    assert score_fault({"reward": 0.0}, "memory", "4 GiB") == {
        "reward": 0.0,
        "failure_reason": "memory: 4 GiB",
        "answer_fault": "memory",
        "answer_fault_detail": "4 GiB",
    }


def test_long_integers_of_a_row_are_kept() -> None:
    stored = {**judge_failure_row(3), "_ng_note": 10**30}
    row = compose_reverified_row(
        {"n": 1 << 70}, stored, {"reward": 0.5, "count": 1 << 70}, reward_before=None
    )
    assert (row["n"], row["count"], row["_ng_note"]) == (1 << 70, 1 << 70, 10**30)
    assert b'"count":1180591620717411303424' in dump_json(row)


def test_a_task_brings_no_marks_of_an_earlier_result() -> None:
    marked = {**TASK, **dict.fromkeys(RESULT_MARKS, True), "_ng_task_index": 3}
    assert drop_marks(marked) == {**TASK, "_ng_task_index": 3}


ANSWER = {"type": "message", "role": "assistant", "content": "4"}


@pytest.mark.parametrize("given", ["What?", [{"role": "user", "content": "What?"}], []])
@pytest.mark.parametrize("output", [[ANSWER], []])
def test_a_row_is_put_together_again_from_its_items(given: Any, output: list[Any]) -> None:
    row = {"responses_create_params": {"input": given}, "response": {"id": "r", "output": output}, "level": 2}
    rest, asked, answered = take_items(row)
    assert len(asked) == (1 if given else 0)
    assert answered == output
    assert "What?" not in str(rest)
    assert str(ANSWER) not in str(rest)
    assert put_items(rest, asked, answered) == row


def test_items_that_are_no_list_of_members_stay_in_the_row() -> None:
    row = {"responses_create_params": {"input": [1, 2]}}
    assert take_items(row) == (row, [], [])


@pytest.mark.parametrize("reward", [0.5, None])
def test_the_row_of_another_program_is_marked(reward: float | None) -> None:
    row = compose_foreign_row({"input": "What?"}, {"output": [ANSWER]}, "theirs", reward, {"tokens": "whole"})
    assert read_agent(row) == "theirs"
    assert is_scored(row) == (reward is not None)
    assert row["_ng_foreign"] == {"tokens": "whole"}


def test_what_is_added_to_a_row_leaves_the_rest_of_it() -> None:
    assert attach_reward(TASK, 0.5) == {**TASK, "reward": 0.5}
    assert attach_metadata(TASK, {"answer": 5}) == {**TASK, "verifier_metadata": {"answer": 5}}
    line = dump_json(TASK) + b"\n"
    replayed = append_replay(line, {"calls": 2})
    assert replayed.startswith(line[:-2])
    assert orjson.loads(replayed) == {**TASK, "_ng_replay": {"calls": 2}}
