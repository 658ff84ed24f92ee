"""From an agent's answer to an output row or a failure."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from nemo_gym.failures import Boundary, Failure, Outcome
from nemo_gym.rollouts.run.answer import AgentAnswer, Failed, Scored, classify
from nemo_gym.rows.identity import RolloutId, identity_at
from nemo_gym.rows.version import ROW_VERSION
from tests.rollouts.doubles import failure, planned, scored

PLANNED = planned(7, 2)


def judged(row: dict[str, Any], encoded: bytes | None = None) -> Scored | Failed:
    return classify(PLANNED, AgentAnswer(row, encoded))


def score_of(row: dict[str, Any], encoded: bytes | None = None) -> Scored:
    result = judged(row, encoded)
    assert isinstance(result, Scored)
    return result


def test_the_answer_of_our_agents_is_kept_letter_by_letter() -> None:
    answer = scored(PLANNED, 0.5, _ng_outcome="truncated")
    result = classify(PLANNED, answer)
    assert isinstance(result, Scored)
    assert result.line == answer.encoded
    assert (result.reward, result.outcome) == (0.5, Outcome.TRUNCATED)


FOREIGN_ROWS: list[tuple[str, bytes]] = [
    ("without identity", b'{"reward": 1, "response": {}}'),
    ("with its identity elsewhere", b'{"reward": 1, "_ng_task_index": 7, "_ng_rollout_index": 2}'),
    ("with another identity", b'{"_ng_task_index":1,"_ng_rollout_index":1,"reward":1}'),
    ("with half an identity", b'{"_ng_task_index":7,"reward":1}'),
    ("over several lines", b'{\n  "reward": 1\r\n}'),
    ("with an outcome that is null", b'{"reward": 1, "_ng_outcome": null}'),
    ("with space before it", b'  {"reward": 1}'),
]


@pytest.mark.parametrize("encoded", [row for _, row in FOREIGN_ROWS], ids=[name for name, _ in FOREIGN_ROWS])
@pytest.mark.parametrize("parsed_only", [False, True])
def test_the_row_of_any_agent_becomes_one_line_led_by_its_identity(encoded: bytes, parsed_only: bool) -> None:
    line = score_of(orjson.loads(encoded), None if parsed_only else encoded).line
    assert identity_at(line) == RolloutId(7, 2)
    assert b"\n" not in line
    assert b"\r" not in line
    pairs = [
        key
        for key in ("_ng_task_index", "_ng_outcome", "agent_ref", "reward")
        if line.count(b'"%b"' % key.encode()) != 1
    ]
    assert pairs == []
    row = orjson.loads(line)
    assert (row["reward"], row["_ng_outcome"], row["_ng_attempt_index"]) == (1, "completed", 0)
    assert row["agent_ref"] == {"type": "responses_api_agents", "name": "simple_agent"}


def test_numbers_too_long_for_a_parser_survive_in_the_row() -> None:
    encoded = b'{"reward":1,"answer":123456789012345678901234567890}'
    assert b"123456789012345678901234567890" in score_of(orjson.loads(encoded), encoded).line


@pytest.mark.parametrize("encoded", [row for _, row in FOREIGN_ROWS], ids=[name for name, _ in FOREIGN_ROWS])
def test_they_survive_in_rows_of_any_agent(encoded: bytes) -> None:
    encoded = encoded.rstrip()[:-1] + b',"answer":[-123456789012345678901234567890]}'
    assert b"[-123456789012345678901234567890]" in score_of(orjson.loads(encoded), encoded).line
    parsed = {**orjson.loads(encoded), "answer": 10**30}
    assert b'"answer":1%b' % (b"0" * 30) in score_of(parsed).line


@pytest.mark.parametrize(
    ("response", "outcome"),
    [
        ({"incomplete_details": {"reason": "max_output_tokens"}}, Outcome.TRUNCATED),
        ({"incomplete_details": None}, Outcome.COMPLETED),
        ({}, Outcome.COMPLETED),
        (None, Outcome.COMPLETED),
    ],
)
def test_the_outcome_of_agents_that_state_none_is_read_off_the_response(
    response: Any, outcome: Outcome
) -> None:
    assert score_of({"reward": 1.0, "response": response}).outcome is outcome


@pytest.mark.parametrize("reward", [None, "1.0", True, [1.0], float("nan"), float("inf")])
def test_what_is_not_a_number_is_not_a_reward(reward: Any) -> None:
    result = judged({"reward": reward})
    assert isinstance(result, Failed)
    assert result.failure.kind == "verifier:no_score"
    assert "reward" not in orjson.loads(result.to_line(PLANNED, terminal=True))


def test_an_answer_without_a_reward_or_with_a_failed_outcome_is_a_failure() -> None:
    rows: list[dict[str, Any]] = [
        {"response": {}},
        {"reward": 1.0, "_ng_outcome": "failed"},
        {"reward": 1.0, "_ng_outcome": "odd"},
    ]
    assert all(isinstance(judged(row), Failed) for row in rows)


def test_a_failure_row_says_what_failed_where_and_what_to_do() -> None:
    result = classify(PLANNED, failure("context_overflow").add_hop("policy_model"))
    assert isinstance(result, Failed)
    assert orjson.loads(result.to_line(PLANNED.again(), terminal=True)) == {
        "_ng_task_index": 7,
        "_ng_rollout_index": 2,
        "_ng_row_version": ROW_VERSION,
        "_ng_attempt_index": 1,
        "_ng_failure_class": "engine:context_overflow",
        "_ng_failure_terminal": True,
        "_ng_outcome": "failed",
        "agent_ref": {"type": "responses_api_agents", "name": "simple_agent"},
        "_ng_failure": {
            "type": "engine",
            "code": "context_overflow",
            "message": "the engine says context_overflow",
            "param": None,
            "retryable": False,
            "remedy": "Start it.",
            "peer": None,
            "hops": ["policy_model"],
        },
    }


def test_an_agent_may_say_that_a_further_attempt_is_pointless() -> None:
    row: dict[str, Any] = {"_ng_failure_class": "skipped", "reward": 0.0, "error": "no GPU"}
    again, never = judged(row), judged(row | {"_ng_failure_terminal": True})
    assert isinstance(again, Failed)
    assert isinstance(never, Failed)
    assert again.is_retryable
    assert not never.is_retryable
    assert never.failure.message == "skipped: no GPU"


def test_a_failed_judge_is_a_failure_of_the_judge() -> None:
    result = judged({"reward": 0.0, "_ng_failure_class": "judge_failed", "_ng_outcome": "completed"})
    assert isinstance(result, Failed)
    assert result.failure.boundary is Boundary.JUDGE
    assert result.failure_class == "judge_failed"
    assert orjson.loads(result.to_line(PLANNED, terminal=False))["_ng_outcome"] == "failed"


def test_a_rollout_that_had_all_its_time_is_not_given_it_again() -> None:
    result = classify(PLANNED, Failure(Boundary.DEADLINE, "rollout_deadline", "too late", retryable=True))
    assert isinstance(result, Failed)
    assert not result.is_retryable


def test_a_row_has_what_its_task_has_though_the_agent_answers_less() -> None:
    encoded = b'{"reward":1.0,"answer":8}'
    scored = score_of(orjson.loads(encoded), encoded)
    row = orjson.loads(scored.line)
    assert row["responses_create_params"] == orjson.loads(PLANNED.row)["responses_create_params"]
    assert row["answer"] == 8, "what the agent says stands"
    assert row == scored.row | PLANNED.identity.members()
