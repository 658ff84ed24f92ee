"""Segments: runs of tokens in which every call's prompt extends what stood before it, ready to train on.

Every sampled token belongs to exactly one segment. Where two calls go on from the same point, the second begins a
segment of its own, in which the tokens of the first stand as context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nemo_gym.tokens._rebuilding import Rebuilding, Rebuilt
from nemo_gym.tokens.reasons import SegmentReason
from nemo_gym.tokens.records import CallRecord


@dataclass(frozen=True, slots=True)
class Segment:
    """One sequence to train on. The three lists are equally long."""

    token_ids: list[int]
    loss_mask: list[int]
    """1 where the policy sampled the token, 0 for all that it was given."""
    logprobs: list[float | None]
    """The natural logarithm of each sampled token's probability; None where nothing was sampled."""
    reason: SegmentReason | None
    """Why it begins; None for the first one."""
    calls: tuple[int, ...]
    """The places in the list of records of the calls that sampled in it."""

    @property
    def sampled(self) -> int:
        """How many of its tokens the policy sampled."""
        return sum(self.loss_mask)


@dataclass(slots=True)
class _Open:
    """A segment that calls are being added to."""

    end: Rebuilt
    reason: SegmentReason | None
    calls: list[int] = field(default_factory=list)
    spans: list[tuple[int, list[float]]] = field(default_factory=list)
    """Where each call's generated ids begin, and their log-probabilities."""


def segments_of(records: Sequence[CallRecord]) -> list[Segment]:
    """The segments of a rollout's calls, in the order in which they begin. Masked calls sample nothing.

    Raises ValueError for records that don't belong together: read them with `rows.calls_of`, which masks such.
    """
    rebuilding = Rebuilding()
    segments: list[_Open] = []
    ends: dict[str, _Open] = {}
    for place, record in enumerate(records):
        if record.tokens is None:
            continue
        fault = rebuilding.add(record)
        if fault is not None:
            raise ValueError(f"call {place} can't be put together: {fault}")
        assert record.sequence is not None
        call = rebuilding[record.sequence]
        segment = _extended(record, ends, rebuilding)
        if segment is None:
            segment = _Open(call, _reason(record, is_first=not segments))
            segments.append(segment)
        segment.end = call
        segment.calls.append(place)
        segment.spans.append((call.prompt_end, record.tokens.logprobs))
        ends[record.sequence] = segment
    return [_closed(segment) for segment in segments]


def _extended(record: CallRecord, ends: dict[str, _Open], rebuilding: Rebuilding) -> _Open | None:
    """The open segment whose last call `record` extends; it can be extended once."""
    if record.base is None or record.kept != rebuilding[record.base].end:
        return None
    return ends.pop(record.base, None)


def _reason(record: CallRecord, *, is_first: bool) -> SegmentReason | None:
    if is_first:
        return None  # whatever it followed, the rollout doesn't hold it
    if record.reason is not None:
        return record.reason
    # It extends a call that another one has extended before it, or comes out of nowhere.
    return SegmentReason.BRANCH if record.base is not None else SegmentReason.UNLINKED


def _closed(segment: _Open) -> Segment:
    token_ids = segment.end.ids
    loss_mask = [0] * len(token_ids)
    logprobs: list[float | None] = [None] * len(token_ids)
    for start, sampled in segment.spans:
        end = start + len(sampled)
        loss_mask[start:end] = [1] * len(sampled)
        logprobs[start:end] = sampled
    return Segment(token_ids, loss_mask, logprobs, segment.reason, tuple(segment.calls))
