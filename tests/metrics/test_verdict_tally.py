"""Rewards that are all 0 are told with what their rows share, and empty answers are counted."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.metrics import VerdictTally
from nemo_gym.metrics.verdict_tally import FEWEST_REWARDS, has_empty_answer
from nemo_gym.rows.forms import AnyRow


def message(*texts: str, **members: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "role": "assistant", "content": content, **members}


CALL = {"type": "function_call", "name": "look", "arguments": "{}"}
REASONING = {"type": "reasoning", "summary": []}


def row(*output: dict[str, Any], reward: float = 0.0, **members: Any) -> AnyRow:
    return {"response": {"output": list(output)}, "reward": reward, "_ng_outcome": "completed", **members}


def describe(*rows: AnyRow) -> str | None:
    tally = VerdictTally()
    for each in rows:
        tally.add(each)
    return tally.describe()


def test_rewards_of_0_are_told_with_the_cause_that_all_share() -> None:
    rows = [
        row(library_reason="undecided", extracted_answer=str(number), question="x") for number in range(60)
    ]
    assert describe(*rows) == (
        "all 60 rewards are 0, and `library_reason` is undecided in all of them. Compare an answer with the expected "
        "one: can any be equal?"
    )
    missed = [row(extracted_answer=None, failure_reason=None, _ng_end_reason="final_answer")] * 5
    assert "are 0, and `extracted_answer` is null in all of them" in str(describe(*missed))


def test_rewards_of_0_for_several_causes_have_none() -> None:
    rows = [
        row(library_reason=reason)
        for reason in ("undecided", "different", "undecided", "different", "timeout")
    ]
    assert str(describe(*rows)).startswith("all 5 rewards are 0. ")


def test_one_reward_or_few_rows_are_no_sign() -> None:
    assert describe(*[row()] * (FEWEST_REWARDS - 1)) is None
    assert describe(*[row()] * 60, row(reward=0.1)) is None
    assert describe(*[row(reward=-1)] * 60) is None


def test_rows_that_were_not_verified_have_no_verdict() -> None:
    assert describe(*[row(_ng_timing={"act": 1.0, "total": 1.0})] * 60) is None
    assert describe(*[row(_ng_timing={"act": 1.0, "verify": 0.1, "total": 1.1})] * 60) is not None


@pytest.mark.parametrize(
    "output",
    [
        (),
        (REASONING,),
        (message(""),),
        (message(" \n", ""),),
        (CALL, message("")),
        (message("a"), message(), REASONING),
        (message(""), {"role": "user", "content": "Well?"}),
    ],
)
def test_an_answer_without_text_is_empty(output: tuple[dict[str, Any], ...]) -> None:
    assert has_empty_answer(row(*output))
    assert not has_empty_answer({**row(*output), "_ng_outcome": "truncated"})


@pytest.mark.parametrize(
    "output",
    [
        (message("a"),),
        (message(""), CALL),
        ({**message(""), "tool_calls": [{"id": "call_1"}]},),
        (message("a"), REASONING),
        (message(content=[{"type": "refusal", "refusal": "No."}]),),
        (CALL, {"type": "function_call_output", "output": ""}),
    ],
)
def test_an_answer_with_text_a_call_or_a_refusal_is_not_empty(output: tuple[dict[str, Any], ...]) -> None:
    assert not has_empty_answer(row(*output))


def test_a_row_of_another_gym_without_a_response_is_not_empty() -> None:
    assert not has_empty_answer({"reward": 1.0})
    tally = VerdictTally()
    tally.add(row())
    tally.add(row(message("x")))
    assert (tally.count, tally.empty) == (2, 1)


def test_rewards_above_the_best_of_their_task_are_told() -> None:
    tally = VerdictTally()
    for each in (
        row(reward=1.0),
        row(reward=3.0),
        row(reward=3.0, best_reward=3.0),
        row(reward=2.5, best_reward=2),
    ):
        tally.add(each)
    assert tally.describe_best() == (
        "2 of 4 rewards are above 1 and their rows state no higher `best_reward`; the highest is 3."
    )
    assert VerdictTally().describe_best() is None


def test_answers_that_broke_their_verifier_are_counted_with_the_first_cause() -> None:
    tally = VerdictTally()
    for each in (
        row(),
        row(reward=0, answer_fault="raised", answer_fault_detail="KeyError:\n 'bonus'"),
        row(reward=0, answer_fault="memory", answer_fault_detail="more"),
    ):
        tally.add(each)
    assert tally.describe_faults() == (
        "2 of 3 answers broke `verify` and got 0 (`answer_fault`), first: KeyError: 'bonus'. "
        "If a right answer can do that, the verifier is wrong."
    )
    assert VerdictTally().describe_faults() is None


@pytest.mark.parametrize("broken", [5, 1])
def test_zeros_of_answers_that_broke_their_verifier_are_told_with_the_cause(broken: int) -> None:
    tally = VerdictTally()
    fault = {"answer_fault": "raised", "answer_fault_detail": "KeyError: 'bonus'"}
    for number in range(5):
        tally.add(row(reward=0, **(fault if number < broken else {})))
    assert tally.describe() == (
        f"all 5 rewards are 0, {broken} of them because the answer broke `verify` (`answer_fault`), first: "
        "KeyError: 'bonus'. If a right answer can do that, correct `verify` first."
    )
    assert tally.describe_faults() is None, "it is told once"
