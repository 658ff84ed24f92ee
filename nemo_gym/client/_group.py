"""A group of rollouts as returned to an asynchronous trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from nemo_gym.client._rollout import Rollout

if TYPE_CHECKING:
    from nemo_gym.tokens.segments import Segment


class SampledBy(NamedTuple):
    """The versions of the policy that sampled a rollout."""

    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """The rollouts of one task that share a baseline, or the cancellation of such a group."""

    line: Mapping[str, Any]
    """Its description by the session, without its rows."""
    rollouts: tuple[Rollout, ...]
    """Those with a score; empty for a cancellation."""
    versions: tuple[SampledBy, ...]
    """The versions of each rollout."""
    mask_below: int | None = None
    """Tokens of versions below are context in `segments`; None masks none."""

    @property
    def key(self) -> str:
        return str(self.line["key"])

    @property
    def round(self) -> int:
        return int(self.line["round"])

    @property
    def number(self) -> int:
        """The number of the group in its session, which is its rollouts' `task`."""
        return int(self.line["number"])

    @property
    def cursor(self) -> int:
        return int(self.line["cursor"])

    @property
    def cancelled(self) -> str | None:
        """The reason of a cancellation; None for a group."""
        return self.line.get("cancelled")

    @property
    def spent(self) -> Mapping[str, float]:
        """The tokens and seconds of a cancellation."""
        return self.line.get("spent") or {}

    @property
    def failed(self) -> Sequence[Mapping[str, Any]]:
        """The rollouts without a score: `{repeat, failure}`."""
        return self.line["failed"]  # type: ignore[no-any-return]

    @property
    def metric(self) -> Mapping[str, float] | None:
        """The mean and the standard deviation of the metric over the baseline."""
        return self.line["metric"]  # type: ignore[no-any-return]

    @property
    def oldest(self) -> int:
        """The oldest version that sampled in it."""
        return min(each.oldest for each in self.versions)

    @property
    def rewards(self) -> list[float]:
        """The rewards of its rollouts."""
        return [rollout.reward or 0.0 for rollout in self.rollouts]

    def to_line(self) -> dict[str, Any]:
        """Return the group as a line of a session's stream."""
        rows = [rollout.row for rollout in self.rollouts]
        return {**self.line, "member_versions": [list(each) for each in self.versions], "members": rows}

    def is_trained(self, rollout: Rollout) -> bool:
        """Return whether a rollout is trained on; a withheld one is only part of the baseline."""
        return rollout.repeat not in self.line.get("withheld", ())

    def segments(self, rollout: Rollout, *, mask_below: int | None = None) -> list[Segment]:
        """Return the token sequences of one of its rollouts, with the tokens of stale versions as context.

        `mask_below`: the least version to train on; by default the group's.
        """
        floor = self.mask_below if mask_below is None else mask_below
        if floor is None:
            return rollout.segments
        from nemo_gym.rows.calls import read_calls
        from nemo_gym.tokens.segments import build_segments

        records = read_calls(rollout.row)
        otherwise = self.versions[self.rollouts.index(rollout)].oldest
        return [
            segment.mask_versions(records, floor, otherwise=otherwise) for segment in build_segments(records)
        ]

    def cut_stale(self, policy: StalenessPolicy, version: int) -> RolloutGroup | None:
        """Return the group as it may be trained on at `version`; None if it is stale.

        The session has judged it for the version at which it expected its consumption. It may have waited longer.
        """
        if policy.bound is None:
            return self
        floor = version - policy.bound
        stale = [each.oldest < floor for each in self.versions]
        if not any(stale):
            return self
        if policy.then == "mask":
            if all(each.newest < floor for each in self.versions):
                return None
            return replace(self, mask_below=max(floor, self.mask_below or floor))
        repeats = [rollout.repeat for rollout, is_stale in zip(self.rollouts, stale, strict=True) if is_stale]
        if policy.then == "withhold":
            withheld = sorted({*self.line["withheld"], *repeats})
            return replace(self, line={**self.line, "withheld": withheld}) if not all(stale) else None
        if policy.of == "group" or len(self.rollouts) - len(repeats) < policy.min_members:
            return None
        left = [place for place, is_stale in enumerate(stale) if not is_stale]
        rollouts = tuple(self.rollouts[place] for place in left)
        return replace(self, rollouts=rollouts, versions=tuple(self.versions[place] for place in left))


class StalenessPolicy(NamedTuple):
    """The options of a session that a reader applies again."""

    bound: int | None = None
    of: str = "token"
    then: str = "mask"
    min_members: int = 1


def read_group(line: Mapping[str, Any]) -> RolloutGroup:
    """Return the group of a line of a session's stream."""
    about = {name: value for name, value in line.items() if name != "members"}
    rollouts = tuple(Rollout(row) for row in line.get("members", ()))
    versions = tuple(SampledBy(*each) for each in line.get("member_versions", ()))
    return RolloutGroup(about, rollouts, versions, line.get("mask_below"))
