"""Segments: training sequences of calls in which every prompt extends all ids before it.

Every sampled token is trained on in exactly one segment. If two calls continue from the same point, the second
starts a new segment, which holds the shared tokens as context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from nemo_gym.tokens.reasons import SegmentReason
from nemo_gym.tokens.rebuilding import Rebuilding, Rebuilt
from nemo_gym.tokens.records import CallRecord

__all__ = ["build_segments"]


class Part(StrEnum):
    """The part of a call that a token belongs to."""

    KEPT = "kept"
    """The beginning of the prompt, with ids of an earlier call of another segment."""
    PROMPT = "prompt"
    """The rest of the prompt: messages, outputs of tools, the template's own tokens."""
    SAMPLED = "sampled"
    """The answer of the policy."""


class Span(NamedTuple):
    """Tokens from `start` to before `end` that are one part of a call."""

    start: int
    end: int
    call: int
    """The index of the call in the list of records."""
    part: Part


@dataclass(frozen=True, slots=True)
class Segment:
    """One sequence to train on. The four lists are equally long."""

    token_ids: list[int]
    loss_mask: list[int]
    """1 for tokens that the policy sampled, 0 for context."""
    logprobs: list[float | None]
    """The natural logarithm of each sampled token's probability; None for context."""
    grammar_mask: list[int]
    """1 for tokens sampled under a grammar, such as a forced tool call or a JSON schema.

    Their log-probabilities are not the model's own: the grammar excluded other tokens.
    """
    reason: SegmentReason | None
    """The reason why it starts; None for the first segment."""
    calls: tuple[int, ...]
    """The indices, in the list of records, of the calls that sampled in it."""
    spans: tuple[Span, ...]
    """The call and the part of every position, in order and without gaps."""

    @property
    def sampled(self) -> int:
        """The number of tokens that the policy sampled."""
        return sum(self.loss_mask)

    def mask_grammar(self) -> Segment:
        """Return the segment with the tokens sampled under a grammar as context."""
        kept = [bit & ~of_grammar for bit, of_grammar in zip(self.loss_mask, self.grammar_mask, strict=True)]
        return replace(self, loss_mask=kept)

    def mask_versions(self, records: Sequence[CallRecord], floor: int, *, otherwise: int) -> Segment:
        """Return the segment with the tokens that versions of the policy below `floor` sampled as context.

        `records`: those that the segment was built from. `otherwise`: the version of calls that name none. A call that
        spans an update without naming the version of each token counts as of its oldest one.
        """
        kept = list(self.loss_mask)
        for span in self.spans:
            if span.part is Part.SAMPLED:
                versions = records[span.call].list_versions(span.end - span.start, otherwise)
                for place, version in enumerate(versions, span.start):
                    if version < floor:
                        kept[place] = 0
        return replace(self, loss_mask=kept)


@dataclass(slots=True)
class _Open:
    """A segment under construction."""

    end: Rebuilt
    reason: SegmentReason | None
    calls: list[tuple[int, int, CallRecord]] = field(default_factory=list)
    """For each call, its index, the start of its generated ids, and its record."""


def build_segments(records: Sequence[CallRecord]) -> list[Segment]:
    """Return the segments of a rollout's calls, in order of their start.

    Masked and untrained calls contribute no sampled token. `rows.read_calls` masks records that are inconsistent, which
    raise ValueError here.
    """
    rebuilding = Rebuilding()
    segments: list[_Open] = []
    ends: dict[str, _Open] = {}
    for place, record in enumerate(records):
        if record.tokens is None:
            continue
        fault = rebuilding.add(record)
        if fault is not None:
            raise ValueError(f"the ids of call {place} cannot be rebuilt: {fault}")
        assert record.sequence is not None
        if record.untrained is not None:
            continue
        call = rebuilding[record.sequence]
        segment = _find_extended(record, ends, rebuilding)
        if segment is None:
            segment = _Open(call, _reason(record, is_first=not segments))
            segments.append(segment)
        segment.end = call
        segment.calls.append((place, call.prompt_end, record))
        ends[record.sequence] = segment
    return [_close_segment(segment) for segment in segments]


def _find_extended(record: CallRecord, ends: dict[str, _Open], rebuilding: Rebuilding) -> _Open | None:
    """Return the open segment whose last call `record` extends. A segment is extended by one call only."""
    if record.base is None or record.kept != rebuilding[record.base].end:
        return None
    return ends.pop(record.base, None)


def _reason(record: CallRecord, *, is_first: bool) -> SegmentReason | None:
    if is_first:
        return None  # the rollout holds no earlier call
    if record.reason is not None:
        return record.reason
    # Another call has already extended its base, or it has no base.
    return SegmentReason.BRANCH if record.base is not None else SegmentReason.UNLINKED


def _close_segment(segment: _Open) -> Segment:
    token_ids = segment.end.ids
    loss_mask = [0] * len(token_ids)
    logprobs: list[float | None] = [None] * len(token_ids)
    grammar_mask = [0] * len(token_ids)
    for _, start, record in segment.calls:
        assert record.tokens is not None
        sampled = record.tokens.logprobs
        end = start + len(sampled)
        loss_mask[start:end] = [1] * len(sampled)
        logprobs[start:end] = sampled
        if record.is_under_grammar:
            grammar_mask[start:end] = [1] * len(sampled)
    calls = tuple(place for place, _, _ in segment.calls)
    return Segment(
        token_ids, loss_mask, logprobs, grammar_mask, segment.reason, calls, tuple(_spans(segment))
    )


def _spans(segment: _Open) -> Iterator[Span]:
    at = 0
    for place, start, record in segment.calls:
        assert record.tokens is not None
        ends = (
            (record.kept, Part.KEPT),
            (start, Part.PROMPT),
            (start + len(record.tokens.generated), Part.SAMPLED),
        )
        for end, part in ends:
            if end > at:
                yield Span(at, end, place, part)
                at = end
