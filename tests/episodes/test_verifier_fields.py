import pytest

from nemo_gym.episodes.verifier_fields import FAILURE_FIELDS, verifier_fields
from nemo_gym.rollouts.lookback import _reverifier
from nemo_gym.rollouts.run import answer

FORGED = {
    "_ng_task_index": 7,
    "_ng_rollout_index": 7,
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


def test_a_verifier_changes_neither_identity_nor_tokens_nor_timing() -> None:
    assert verifier_fields({"reward": 1.0, "own": "x", **FORGED}) == {"reward": 1.0, "own": "x"}


@pytest.mark.parametrize("name", sorted(FAILURE_FIELDS))
def test_the_failure_fields_of_the_contract_are_taken(name: str) -> None:
    assert verifier_fields({name: "judge_failed"}) == {name: "judge_failed"}
    assert verifier_fields({name: None}) == {}


def test_the_collector_reads_no_other_failure_fields() -> None:
    read = {answer.NG_FAILURE_CLASS_KEY, answer.NG_NO_PERSIST_KEY, answer.NG_TERMINAL_KEY}
    texts = {key for key in answer._ERROR_TEXT_KEYS if key.startswith("_ng_")}
    assert read | texts == FAILURE_FIELDS


def test_a_row_that_is_verified_again_keeps_its_identity() -> None:
    assert vars(_reverifier)["verifier_fields"] is verifier_fields
