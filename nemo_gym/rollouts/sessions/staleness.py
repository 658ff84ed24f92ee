"""The policy of staleness as pure functions: what of a group may be trained on at a version.

The staleness of a token is the version that consumes it, minus the version that sampled it. So the bound gives the
least version that may be trained on, the *floor*: the consuming version minus the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nemo_gym.rollouts.sessions.groups import Member
from nemo_gym.rollouts.sessions.options import StalenessOptions


@dataclass(frozen=True, slots=True)
class Judged:
    """The rollouts of a group by what becomes of them."""

    kept: tuple[Member, ...]
    """Those in the group: trained on, but for masked tokens and withheld rollouts."""
    dropped: tuple[Member, ...] = ()
    withheld: tuple[int, ...] = ()
    """The repeats of kept rollouts that are not trained on."""
    mask_below: int | None = None
    """Tokens of versions below are masked."""
    is_stale: bool = False
    """Whether nothing is left to train on."""

    def find_baseline(self, options: StalenessOptions) -> list[Member]:
        """Return the rollouts in the baseline of the group."""
        is_left = options.baseline == "leave"
        return [each for each in self.kept if not is_left or each.repeat not in self.withheld]


def find_floor(options: StalenessOptions, version: int) -> int | None:
    """Return the least version that may be trained on at `version`; None without a bound."""
    return None if options.bound is None else version - options.bound


def judge_staleness(options: StalenessOptions, members: Sequence[Member], floor: int | None) -> Judged:
    """Apply the policy to the usable members of a group."""
    everything = tuple(members)
    if floor is None or not any(member.versions.oldest < floor for member in everything):
        return Judged(everything)
    stale = tuple(member for member in everything if member.versions.oldest < floor)
    match options.then:
        case "mask":
            is_over = all(member.versions.newest < floor for member in everything)
            return Judged(everything, mask_below=floor, is_stale=is_over)
        case "withhold":
            repeats = tuple(member.repeat for member in stale)
            return Judged(everything, withheld=repeats, is_stale=len(stale) == len(everything))
    if options.of == "group":  # also for `wait`, if a version came before its groups were consumed
        return Judged((), everything, is_stale=True)
    kept = tuple(member for member in everything if member.versions.oldest >= floor)
    return Judged(kept, stale, is_stale=not kept)
