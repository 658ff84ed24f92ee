"""Segments of records that are put together by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nemo_gym.tokens.ids import IdSequence, encode_ids
from nemo_gym.tokens.reasons import MaskReason, SegmentReason
from nemo_gym.tokens.records import CallRecord, CallTokens
from nemo_gym.tokens.segments import Part, build_segments


def fingerprint(*ids: int) -> str:
    return IdSequence(encode_ids(ids)).fingerprint


def call(
    base: tuple[int, ...], prompt: list[int], generated: list[int], kept: int | None = None
) -> CallRecord:
    """A call on top of the first `kept` ids of `base`, by default of all."""
    kept = len(base) if kept is None else kept
    return CallRecord(
        base=fingerprint(*base) if base else None,
        kept=kept,
        sequence=fingerprint(*base[:kept], *prompt, *generated),
        tokens=CallTokens(prompt, generated, [-0.5] * len(generated)),
    )


FIRST = call((), [1, 2], [3])


def test_calls_that_extend_one_another_are_one_segment() -> None:
    (segment,) = build_segments([FIRST, call((1, 2, 3), [4], [5, 6])])
    assert segment.token_ids == [1, 2, 3, 4, 5, 6]
    assert segment.loss_mask == [0, 0, 1, 0, 1, 1]
    assert segment.logprobs == [None, None, -0.5, None, -0.5, -0.5]
    assert (segment.calls, segment.reason, segment.sampled) == ((0, 1), None, 3)


def test_two_calls_that_extend_the_same_one_share_its_tokens_as_context() -> None:
    first, second = build_segments([FIRST, call((1, 2, 3), [4], [5]), call((1, 2, 3), [6], [7])])
    assert (first.token_ids, first.loss_mask) == ([1, 2, 3, 4, 5], [0, 0, 1, 0, 1])
    assert (second.token_ids, second.loss_mask) == ([1, 2, 3, 6, 7], [0, 0, 0, 0, 1])
    assert second.reason is SegmentReason.BRANCH


def test_a_call_that_keeps_a_part_begins_a_segment() -> None:
    first, second = build_segments([FIRST, call((1, 2, 3), [9], [8], kept=2)])
    assert (second.token_ids, second.loss_mask) == ([1, 2, 9, 8], [0, 0, 0, 1])
    assert (first.sampled, second.sampled) == (1, 1)


def test_the_same_sample_twice_is_two_segments() -> None:
    first, second = build_segments([FIRST, FIRST])
    assert first.token_ids == second.token_ids
    assert (first.calls, second.calls, second.reason) == ((0,), (1,), SegmentReason.UNLINKED)


def test_every_position_has_its_call_and_part() -> None:
    first, second = build_segments([FIRST, call((1, 2, 3), [4], [5, 6]), call((1, 2, 3), [9], [8], kept=2)])
    assert first.spans == (
        (0, 2, 0, Part.PROMPT),
        (2, 3, 0, Part.SAMPLED),
        (3, 4, 1, Part.PROMPT),
        (4, 6, 1, Part.SAMPLED),
    )
    assert second.spans == ((0, 2, 2, Part.KEPT), (2, 3, 2, Part.PROMPT), (3, 4, 2, Part.SAMPLED))


def test_a_masked_call_samples_nothing() -> None:
    masked = CallRecord(masked=MaskReason.INVALID_LOGPROBS)
    (segment,) = build_segments([masked, FIRST, masked])
    assert segment.calls == (1,)
    assert build_segments([masked]) == build_segments([]) == []


@pytest.mark.parametrize(
    "record",
    [
        call((7, 7), [4], [5]),
        CallRecord(base=fingerprint(1, 2, 3), kept=4, sequence="0" * 16, tokens=CallTokens([4], [5], [-0.5])),
        CallRecord(sequence="0" * 16, tokens=CallTokens([4], [5], [-0.5])),
        CallRecord(sequence=None, tokens=CallTokens([4], [5], [-0.5])),
    ],
)
def test_inconsistent_records_are_refused(record: CallRecord) -> None:
    with pytest.raises(ValueError, match="call 1 cannot be rebuilt"):
        build_segments([FIRST, record])


def test_tokens_under_a_grammar_can_be_context() -> None:
    forced = replace(call((1, 2, 3), [4], [5, 6]), sampling={"grammar": True})
    (segment,) = build_segments([FIRST, forced])
    assert segment.grammar_mask == [0, 0, 0, 0, 1, 1]
    assert segment.mask_grammar().loss_mask == [0, 0, 1, 0, 0, 0]
    assert segment.loss_mask == [0, 0, 1, 0, 1, 1], "a segment does not change"


def test_tokens_of_stale_versions_can_be_context() -> None:
    spanning = replace(call((1, 2, 3), [4], [5, 6, 7]), versions=[(0, 1), (2, 3)], policy_version=1)
    records = [FIRST, spanning]
    (segment,) = build_segments(records)
    assert segment.loss_mask == [0, 0, 1, 0, 1, 1, 1]
    assert segment.mask_versions(records, 2, otherwise=2).loss_mask == [0, 0, 1, 0, 0, 0, 1]
    assert segment.mask_versions(records, 2, otherwise=1).loss_mask == [0, 0, 0, 0, 0, 0, 1]
    whole = replace(spanning, versions=(), policy_version_end=3)
    (segment,) = build_segments([FIRST, whole])
    assert segment.mask_versions([FIRST, whole], 2, otherwise=2).loss_mask == [0, 0, 1, 0, 0, 0, 0]
