"""What can be said for the tokens of a rollout, or of many: how many calls there are, what is masked, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_gym.tokens.reasons import SegmentReason
from nemo_gym.tokens.records import CallRecord, PolicyVersion
from nemo_gym.tokens.segments import segments_of


@dataclass(slots=True)
class Certificate:
    """Counts over the calls of rollouts."""

    calls: int = 0
    """Model calls whose tokens were asked for."""
    masked: Counter[str] = field(default_factory=Counter)
    """Calls that can't be trained on, by reason."""
    segments: int = 0
    drifts: Counter[SegmentReason] = field(default_factory=Counter)
    """Segments that begin for a reason."""
    tokens: int = 0
    """All tokens in segments."""
    sampled: int = 0
    """Those that the policy sampled."""
    policy_versions: list[PolicyVersion] = field(default_factory=list)
    """The versions that took part, in the order of their first call."""

    @property
    def masked_fraction(self) -> float:
        """The share of calls that are masked; 0 without calls."""
        return self.masked.total() / self.calls if self.calls else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "masked": dict(self.masked),
            "masked_fraction": self.masked_fraction,
            "segments": self.segments,
            "drifts": {reason.value: count for reason, count in self.drifts.items()},
            "tokens": self.tokens,
            "sampled": self.sampled,
            "policy_versions": self.policy_versions,
        }


def certificate_of(records: Sequence[CallRecord]) -> Certificate:
    """The certificate of one rollout's calls."""
    asked = [record for record in records if record.masked or record.has_ids]
    segments = segments_of(asked)
    versions = [
        version
        for record in records
        for version in (record.policy_version, record.policy_version_end)
        if version is not None
    ]
    return Certificate(
        calls=len(asked),
        masked=Counter(record.masked.value for record in asked if record.masked),
        segments=len(segments),
        drifts=Counter(segment.reason for segment in segments if segment.reason is not None),
        tokens=sum(len(segment.token_ids) for segment in segments),
        sampled=sum(segment.sampled for segment in segments),
        policy_versions=list(dict.fromkeys(versions)),
    )
