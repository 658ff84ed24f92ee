"""Which recorded call a request is. Pure data: no file, no clock, no guess.

A request is a recorded call if both ask the same model and say the same turns; equal calls are taken in recorded order.
A request that is none of them must follow an answer after which the record has nothing left to compare it with: then it
is live. Every other request is a mismatch, with the first turn that differs. Once the record is used up, the session is
live for good.

A call without a recorded answer (it was in flight when the attempt ended, or lies after the turn of a fork) is compared
as well, and then live.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from nemo_gym.engines.attempts.noise import Noise
from nemo_gym.responses.turns import SpokenTurn

_BEFORE, _AFTER = 30, 40
"""Characters of a text on either side of the first difference: both texts fit into a line of a terminal's summary."""


@dataclass(slots=True, eq=False)
class ComparedCall:
    """A call: what it said and, once it is known, what was answered."""

    number: int
    """From 1, in the order in which the calls of the session at this server began."""
    model: str | None
    turns: Sequence[SpokenTurn]
    is_answered: bool = True
    """Whether the record has its answer."""
    instructions: str = ""
    """System text and tools, which are compared apart."""
    answer: tuple[SpokenTurn, ...] | None = None
    """The turns of its answer; None while they are unknown."""

    def is_before(self, turns: Sequence[SpokenTurn], noise: Noise) -> bool:
        """Return whether a conversation goes on after this call's answer."""
        if self.answer is None or len(self.turns) + len(self.answer) > len(turns):
            return False
        return count_noise([*self.turns, *self.answer], turns, noise) is not None


class Match(NamedTuple):
    """The kinds of requests."""

    recorded: ComparedCall | None
    """The recorded call; None for a live call."""
    parent: ComparedCall | None
    """For a live call: the call whose answer it follows, if the replay knows it."""
    noise: Counter[str]
    compared: int
    """The observations in it that were compared for the first time: turns that no model wrote."""
    changes_instructions: bool = False


@dataclass(slots=True, eq=False)
class Mismatch(Exception):
    """A request that is not what the record has."""

    call: int
    """The number of the nearest recorded call."""
    turn: int
    """The number of the first differing turn in its request, from 1; 0 for the model and the instructions."""
    kind: str
    recorded: str | None
    """The recorded text around the first difference; None if the record has no such turn."""
    said: str | None
    place: int
    """The first differing character of the recorded text."""

    def __str__(self) -> str:
        where = f"turn {self.turn} ({self.kind})" if self.turn else self.kind
        return (
            f"call {self.call} of the replayed attempt differs from the recorded one at {where}, character "
            f"{self.place}: recorded {_show(self.recorded)}, now {_show(self.said)}"
        )

    def to_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("call", "turn", "kind", "recorded", "said", "place")}


@dataclass(slots=True)
class Matcher:
    """Matches the requests of one session at one model server, in the order in which they come."""

    left: list[ComparedCall]
    """The recorded calls that no request has matched, in recorded order."""
    noise: Noise = field(default_factory=Noise)
    is_strict: bool = False
    """Whether changed instructions are a mismatch, too."""
    known: list[ComparedCall] = field(default_factory=list)
    """The calls so far, of which the answers are known or will be."""

    @property
    def is_over(self) -> bool:
        """True if nothing is left to compare: every further call is live."""
        return not self.left

    @property
    def missing(self) -> int:
        """The number of recorded answers that no call has asked for."""
        return sum(exchange.is_answered for exchange in self.left)

    def match(self, request: ComparedCall) -> Match:
        """Return the recorded call that a request is, or that it is live. Raises `Mismatch`."""
        found = self._find_recorded(request)
        if found is None:
            return self._find_parent(request)
        recorded, noise = found
        changed = recorded.instructions != request.instructions
        if changed and self.is_strict:
            raise _build_mismatch(
                recorded, 0, "instructions", recorded.instructions, request.instructions, self.noise
            )
        parent = self.find_last_before(request.turns)
        self.left.remove(recorded)
        self.known.append(recorded)
        new = recorded.turns[len(parent.turns) if parent is not None else 0 :]
        compared = sum(not turn.is_answer for turn in new)
        return Match(recorded, parent, noise, compared, changed)

    def add_live(self, exchange: ComparedCall) -> None:
        """Add a live call, so that the calls after its answer are known to follow it."""
        self.known.append(exchange)

    def _find_recorded(self, request: ComparedCall) -> tuple[ComparedCall, Counter[str]] | None:
        same_length = (
            each
            for each in sorted(self.left, key=lambda each: not each.is_answered)
            if len(each.turns) == len(request.turns) and each.model == request.model
        )
        for exchange in same_length:
            noise = count_noise(exchange.turns, request.turns, self.noise)
            if noise is not None:
                return exchange, noise
        return None

    def find_last_before(self, turns: Sequence[SpokenTurn]) -> ComparedCall | None:
        """Return the known call with the longest conversation that goes on with these turns."""
        before = (each for each in self.known if each.is_before(turns, self.noise))
        return max(before, key=lambda each: len(each.turns), default=None)

    def _find_parent(self, request: ComparedCall) -> Match:
        parent = self.find_last_before(request.turns)
        follows = [
            each for each in self.left if parent is not None and parent.is_before(each.turns, self.noise)
        ]
        if self.left and (parent is None or follows):
            raise find_mismatch(follows or self.left, request, self.noise)
        return Match(None, parent, Counter(), 0)


def count_noise(
    recorded: Sequence[SpokenTurn], said: Sequence[SpokenTurn], noise: Noise
) -> Counter[str] | None:
    """Return the noise between the recorded turns and as many said ones; None if they differ otherwise."""
    found: Counter[str] = Counter()
    for ours, theirs in zip(recorded, said, strict=False):
        if ours == theirs:
            continue
        differs = noise.compare(ours.text, theirs.text) if ours.kind == theirs.kind else None
        if differs is None:
            return None
        found.update(differs)
    return found


def find_mismatch(candidates: Iterable[ComparedCall], request: ComparedCall, noise: Noise) -> Mismatch:
    """Return the first difference between a request and the recorded call that is most like it."""

    def count_equal(exchange: ComparedCall) -> int:
        pairs = zip(exchange.turns, request.turns, strict=False)
        return next(
            (at for at, (one, other) in enumerate(pairs) if count_noise([one], [other], noise) is None),
            min(len(exchange.turns), len(request.turns)),
        )

    nearest = max(candidates, key=lambda each: (count_equal(each), -each.number))
    at = count_equal(nearest)
    recorded, said = (each.turns[at] if at < len(each.turns) else None for each in (nearest, request))
    if recorded is None and said is None:
        return _build_mismatch(nearest, 0, "model", nearest.model or "", request.model or "", noise)
    kind = " and ".join(dict.fromkeys(turn.kind for turn in (recorded, said) if turn is not None))
    ours, theirs = (turn.text if turn is not None else None for turn in (recorded, said))
    return _build_mismatch(nearest, at + 1, kind, ours, theirs, noise)


def _build_mismatch(
    exchange: ComparedCall, turn: int, kind: str, recorded: str | None, said: str | None, noise: Noise
) -> Mismatch:
    place, there = noise.find_difference(recorded or "", said or "")
    return Mismatch(exchange.number, turn, kind, _cut(recorded, place), _cut(said, there), place)


def _cut(text: str | None, place: int) -> str | None:
    if text is None:
        return None
    start, end = max(0, place - _BEFORE), place + _AFTER
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _show(text: str | None) -> str:
    return "nothing" if text is None else repr(text)
