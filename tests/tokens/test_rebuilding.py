"""The ids of every call are rebuilt from the ids that each call added, and a wrong record is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemo_gym.tokens.linkage import Ledger
from nemo_gym.tokens.reasons import MaskReason
from nemo_gym.tokens.rebuilding import Rebuilding
from nemo_gym.tokens.records import CallRecord
from tests.tokens.captures import captured


def records_of(*calls: tuple[list[int], list[int]]) -> list[CallRecord]:
    ledger = Ledger()
    captures = [captured(prompt, generated) for prompt, generated in calls]
    return [CallRecord.from_capture(capture, ledger.add(capture, None)) for capture in captures]


def test_calls_that_extend_one_another_share_one_sequence() -> None:
    first, second = records_of(([1, 2], [3]), ([1, 2, 3, 4], [5]))
    rebuilding = Rebuilding()
    assert [rebuilding.add(first), rebuilding.add(second)] == [None, None]
    assert first.sequence is not None
    assert second.sequence is not None
    assert list(rebuilding) == [first.sequence, second.sequence]
    earlier, later = rebuilding[first.sequence], rebuilding[second.sequence]
    assert earlier.sequence is later.sequence
    assert (earlier.prompt_ids, earlier.ids) == ([1, 2], [1, 2, 3]), "a later call changes no earlier one"
    assert (later.prompt_ids, later.ids) == ([1, 2, 3, 4], [1, 2, 3, 4, 5])


def test_two_continuations_of_one_call_do_not_mix() -> None:
    records = records_of(([1], [2]), ([1, 2, 3], [4]), ([1, 2, 5], [6]))
    rebuilding = Rebuilding()
    assert [rebuilding.add(record) for record in records] == [None] * 3
    assert [rebuilding[sequence].ids for sequence in rebuilding] == [[1, 2], [1, 2, 3, 4], [1, 2, 5, 6]]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"base": "0" * 16}, MaskReason.MISSING_BASE),
        ({"kept": 99}, MaskReason.DAMAGED_RECORD),
        ({"kept": 2}, MaskReason.DAMAGED_RECORD),
        ({"sequence": "0" * 16}, MaskReason.DAMAGED_RECORD),
        ({"sequence": None}, MaskReason.DAMAGED_RECORD),
        ({"tokens": None, "masked": MaskReason.SHORT_LOGPROBS}, MaskReason.SHORT_LOGPROBS),
    ],
)
def test_a_record_that_does_not_fit_gives_its_reason(changes: dict[str, object], reason: MaskReason) -> None:
    first, second = records_of(([1, 2], [3]), ([1, 2, 3, 4], [5]))
    rebuilding = Rebuilding()
    rebuilding.add(first)
    assert rebuilding.add(replace(second, **changes)) is reason  # type: ignore[arg-type]
    assert list(rebuilding) == [first.sequence]
