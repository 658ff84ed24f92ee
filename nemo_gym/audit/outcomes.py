"""The outcome of one probe: an attempt whose right verdict is known, and the verdict that it got.

An outcome is undecided where the audit itself cannot tell which verdict is right; it is shown and never counted. A
failed probe has no verdict at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

FULL = 1 - 1e-9
"""The share of the best reward from which an attempt counts as accepted."""


class Right(StrEnum):
    """The right verdict."""

    ACCEPT = "accept"
    REJECT = "reject"
    SAME = "same"
    """The verdict of the same attempt before, whichever that was."""


class Conclusion(StrEnum):
    """The judgement of the verifier by an outcome."""

    RIGHT = "right"
    FALSE_ACCEPT = "false accept"
    FALSE_REJECT = "false reject"
    FLIP = "flip"
    UNDECIDED = "undecided"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """One probe with its reward."""

    task: str
    kind: str
    """The class of the probe, such as `gold without a call`."""
    right: Right
    conclusion: Conclusion
    reward: float | None = None
    """None without a verdict."""
    probe: str = ""
    """The probe itself, short: the answer, or the call that was left out."""
    reason: str = ""
    """The grounds of an accusation, the reason of doubt, or the failure."""
    seconds: float = 0.0
    """The time of `verify`."""
    place: int | None = None
    """Which call of the gold script it is about, from 0."""

    def as_json(self) -> dict[str, Any]:
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        return {name: value for name, value in values if value not in ("", None)}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> ProbeOutcome:
        return cls(
            **values | {"right": Right(values["right"]), "conclusion": Conclusion(values["conclusion"])}
        )


@dataclass(frozen=True, slots=True)
class Attempt:
    """An answer with its right verdict."""

    kind: str
    right: Right
    text: str
    is_sure: bool = True


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """The answer to one attempt."""

    reward: float | None
    seconds: float = 0.0
    """The time of `/verify` alone."""
    failure: str = ""
    """Why there is no reward."""
    outputs: tuple[str, ...] = ()
    """The answers of the tools, by call."""
    response: Mapping[str, Any] | None = None
    """The attempt, as it was verified."""


def conclude(task: str, attempt: Attempt, verdict: ProbeVerdict, best: float) -> ProbeOutcome:
    """Return the outcome of an attempt; `best` is the reward of the gold answer."""
    reason = ""
    if verdict.reward is None:
        conclusion, reason = Conclusion.FAILED, verdict.failure
    else:
        conclusion = judge(attempt.right, verdict.reward, best)
        if conclusion is not Conclusion.RIGHT and not attempt.is_sure:
            conclusion, reason = Conclusion.UNDECIDED, "the task may see this attempt otherwise"
    return ProbeOutcome(
        task, attempt.kind, attempt.right, conclusion, verdict.reward, attempt.text, reason, verdict.seconds
    )


def judge(right: Right, reward: float, best: float = 1.0) -> Conclusion:
    """Return what a reward says of the verifier, for an attempt whose right verdict is `right`."""
    is_accepted = reward >= best * FULL
    if is_accepted == (right is Right.ACCEPT):
        return Conclusion.RIGHT
    return Conclusion.FALSE_ACCEPT if is_accepted else Conclusion.FALSE_REJECT
