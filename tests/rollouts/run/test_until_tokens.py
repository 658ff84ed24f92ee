"""The tokens of attempts are counted, and a ceiling that cannot be kept is a fault."""

from __future__ import annotations

from typing import Any

from nemo_gym.rollouts.run.until_tokens import TokenCount


def row_with(usage: Any, **fields: Any) -> dict[str, Any]:
    return {"reward": 1.0, "response": {"output": [], "usage": usage}, **fields}


def test_tokens_of_all_attempts_are_counted() -> None:
    count = TokenCount(100)
    for row in (
        row_with({"total_tokens": 40}),
        row_with({"input_tokens": 30, "output_tokens": 20}),
        row_with({"total_tokens": 9}, _ng_failure_class="judge_down"),
        row_with(None),
        row_with(None, _ng_failure_class="judge_down"),
    ):
        assert not count.is_spent
        count.add(row)
    assert (count.spent, count.uncounted) == (99, 1)
    count.add(row_with({"total_tokens": 1}))
    assert count.is_spent


def test_without_a_ceiling_nothing_is_spent() -> None:
    count = TokenCount(None)
    for _ in range(100):
        count.add(row_with(None))
    assert not count.is_spent
    assert count.find_fault() is None


def test_a_ceiling_needs_counts() -> None:
    count = TokenCount(100)
    for _ in range(15):
        count.add(row_with({"total_tokens": 0}))
    assert count.find_fault() is None
    count.add(row_with(None))
    fault = count.find_fault()
    assert fault is not None
    assert "+max_total_tokens=100" in fault.message
    assert "+max_rollouts" in str(fault.remedy)
    count.add(row_with({"total_tokens": 5}))
    assert count.find_fault() is None
