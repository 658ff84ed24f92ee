"""Probes of behaviour: the same attempt must get the same verdict, again, in another order, and beside others.

Each probe sends attempts whose verdict is known from before, and every other verdict is a flip.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right
from nemo_gym.audit.probing import Prober, ProbeVerdict
from nemo_gym.rows.forms import AnyRow

AGAIN, REVERSED = "same attempt 20 times", "in another order"
RESTARTED = "after a restart, with another time zone, locale and hash seed"
_TIMES, _AT_ONCE = 20, (16, 128)


@dataclass(frozen=True, slots=True)
class KnownVerdict:
    """An attempt and the reward that it got."""

    task: str
    row: AnyRow
    text: str
    reward: float


async def probe_behaviour(prober: Prober, known: Sequence[KnownVerdict]) -> list[ProbeOutcome]:
    """Return the outcomes of all probes of behaviour that need no restart."""
    outcomes = []
    for each in known[:4]:
        verdicts = [await prober.attempt(each.row, each.text) for _ in range(_TIMES)]
        outcomes += [_compare(AGAIN, each, verdict) for verdict in verdicts]
    outcomes += await compare_again(prober, list(reversed(known)), REVERSED)
    for at_once in _AT_ONCE:
        crowd = [known[place % len(known)] for place in range(at_once)] if known else []
        verdicts = await asyncio.gather(*(prober.attempt(each.row, each.text) for each in crowd))
        outcomes += _compare_all(f"{at_once} at once", crowd, verdicts)
    return outcomes


async def compare_again(prober: Prober, known: Sequence[KnownVerdict], kind: str) -> list[ProbeOutcome]:
    """Send each attempt again, one after the other."""
    return _compare_all(kind, known, [await prober.attempt(each.row, each.text) for each in known])


def _compare_all(
    kind: str, known: Iterable[KnownVerdict], verdicts: Iterable[ProbeVerdict]
) -> list[ProbeOutcome]:
    return [_compare(kind, each, verdict) for each, verdict in zip(known, verdicts, strict=True)]


def _compare(kind: str, before: KnownVerdict, now: ProbeVerdict) -> ProbeOutcome:
    if now.reward is None:
        conclusion, reason = Conclusion.FAILED, now.failure
    elif now.reward == before.reward:
        conclusion, reason = Conclusion.RIGHT, ""
    else:
        conclusion, reason = Conclusion.FLIP, f"the reward was {before.reward:g} before"
    return ProbeOutcome(
        before.task, kind, Right.SAME, conclusion, now.reward, before.text, reason, now.seconds
    )
