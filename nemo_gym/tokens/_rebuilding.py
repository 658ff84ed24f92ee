"""Rebuilds the full ids of each call from the ids that every call added."""

from __future__ import annotations

from typing import NamedTuple

from nemo_gym.tokens.ids import IdSequence, encode_ids
from nemo_gym.tokens.reasons import MaskReason
from nemo_gym.tokens.records import CallRecord


class Rebuilt(NamedTuple):
    """A call's prompt and generated ids: the first `end` ids of a sequence that later calls may have extended."""

    sequence: IdSequence
    prompt_end: int
    end: int

    @property
    def prompt_ids(self) -> list[int]:
        return self.sequence.ids(0, self.prompt_end)

    @property
    def ids(self) -> list[int]:
        return self.sequence.ids(0, self.end)


class Rebuilding(dict[str, Rebuilt]):
    """The calls of one rollout by fingerprint. Calls that extend one another share one sequence."""

    def add(self, record: CallRecord) -> MaskReason | None:
        """Rebuild the ids of a call. Return the reason if that is impossible, or None."""
        if record.tokens is None:
            return record.masked
        base = self.get(record.base) if record.base is not None else None
        if record.base is not None and base is None:
            return MaskReason.MISSING_BASE
        if base is not None and not 0 <= record.kept <= base.end:
            return MaskReason.DAMAGED_RECORD
        prompt, generated = encode_ids(record.tokens.prompt), encode_ids(record.tokens.generated)
        if base is not None and record.kept == base.end == len(base.sequence):
            sequence = base.sequence
        else:
            sequence = IdSequence(base.sequence.encode(0, record.kept) if base is not None else b"")
        sequence.extend(prompt)
        prompt_end = len(sequence)
        sequence.extend(generated)
        if record.sequence is None or sequence.fingerprint != record.sequence:
            return MaskReason.DAMAGED_RECORD
        self[record.sequence] = Rebuilt(sequence, prompt_end, len(sequence))
        return None
