import math
from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.metrics import aggregate
from nemo_gym.metrics.records import canonical_answer, read_measurements, read_record


def row(**fields: Any) -> dict[str, Any]:
    return {"_ng_task_index": 3, "_ng_rollout_index": 1, "reward": 0.5, **fields}


def test_numbers_components_and_usage_are_measured_and_bookkeeping_is_not() -> None:
    record = read_record(
        row(
            correct=True,
            note="text",
            reward_components={"format": 0.25, "label": "x"},
            response={"usage": {"input_tokens": 10, "output_tokens": 4, "output_tokens_details": {"a": 1}}},
            _ng_attempt_index=2,
        )
    )
    assert (record.task, record.rollout, record.attempt) == (3, 1, 2)
    assert record.measurements == {
        "reward": 0.5,
        "correct": 1.0,
        "reward_components/format": 0.25,
        "input_tokens": 10.0,
        "output_tokens": 4.0,
    }


def test_the_rows_own_number_wins_over_the_usage_of_the_same_name() -> None:
    record = read_record(row(output_tokens=99, response={"usage": {"output_tokens": 4}}))
    assert record.measurements["output_tokens"] == 99.0


def test_a_row_without_a_score_has_no_measurements() -> None:
    record = read_record(row(reward=None, correct=True))
    assert (record.outcome, record.is_scored, record.measurements) == ("failed", False, {})


@pytest.mark.parametrize("reward", [True, None, "1", math.nan])
def test_a_value_that_is_no_reward_is_no_measurement(reward: object) -> None:
    assert read_measurements(row(reward=reward, correct=True)) == {"correct": 1.0}


def test_failed_rows_keep_their_class_and_give_no_answer() -> None:
    record = read_record(row(_ng_failure_class="judge_failed", answer="42"), answer_key="answer")
    assert record.failure == "judge_failed"
    assert record.answer is None


@pytest.mark.parametrize("key", ["_ng_task_index", "_ng_rollout_index"])
@pytest.mark.parametrize("index", [None, "1", 1.5, True])
def test_a_row_that_cannot_be_placed_is_refused_by_the_name_of_its_field(key: str, index: object) -> None:
    with pytest.raises(InputError) as error:
        read_record(row(**{key: index}))
    assert error.value.failure.param == key


def test_answers_vote_by_their_text() -> None:
    assert canonical_answer("a b") == "a b"
    assert canonical_answer("") == ""
    assert canonical_answer(None) is None
    assert canonical_answer({"b": 1, "a": [2]}) == canonical_answer({"a": [2], "b": 1})
    assert canonical_answer(7) == "7"


def test_answers_that_broke_their_verifier_are_a_share_of_the_scored_rollouts() -> None:
    faulty = {"reward": 0.0, "answer_fault": "raised"}
    rows: list[dict[str, Any]] = [
        faulty,
        {"reward": 1.0},
        {"reward": 0.0, "answer_fault": None},
        {"error": "x"},
    ]
    metrics = aggregate(
        [{"_ng_task_index": at, "_ng_rollout_index": 0, **row} for at, row in enumerate(rows)]
    )
    assert metrics["agent_metrics"]["mean/answer_faults"] == pytest.approx(1 / 3)
    clean = aggregate([{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0}])
    assert "mean/answer_faults" not in clean["agent_metrics"]
