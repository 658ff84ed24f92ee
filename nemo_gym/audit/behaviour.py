"""Probes of behaviour: the same attempt must get the same verdict, again, in another order, and beside others.

Each probe sends attempts whose verdict is known from before, and every other verdict is a flip. The calls of a few gold
scripts are made twice: an environment whose tools do not repeat themselves cannot continue or fork attempts
(docs/continue_fork_rewind.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nemo_gym.audit.gold_scripts import GoldScript, find_script
from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, ProbeVerdict, Right
from nemo_gym.audit.probing import Call, Prober
from nemo_gym.failures import GymError
from nemo_gym.rows.forms import AnyRow

AGAIN, REVERSED = "same attempt 20 times", "in another order"
FORMER = "after a right answer in a former session"
RESTARTED = "after a restart, with another time zone, locale and hash seed"
REPLAYED = "replayed calls say the same"
"""The class of probes of a durable run: an attempt is continued or forked only if its tools repeat themselves."""
_MOST_REPLAYED, _SHOWN = 4, 60
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
    outcomes += await probe_former_sessions(prober, known)
    for at_once in _AT_ONCE:
        crowd = [known[place % len(known)] for place in range(at_once)] if known else []
        verdicts = await asyncio.gather(*(prober.attempt(each.row, each.text) for each in crowd))
        outcomes += _compare_all(f"{at_once} at once", crowd, verdicts)
    return outcomes


async def probe_former_sessions(prober: Prober, known: Sequence[KnownVerdict]) -> list[ProbeOutcome]:
    """Give the wrong answer of a task while a session with the right one is open, and after it.

    `known` has two verdicts of a task, which differ. The right answer of the former session must not count.
    """
    best: dict[str, KnownVerdict] = {}
    for each in known:
        best[each.task] = max(best.get(each.task, each), each, key=lambda verdict: verdict.reward)
    outcomes = []
    for each in known:
        former = best[each.task]
        if each.reward < former.reward:
            beside = await prober.attempt_beside(each.row, each.text, said=former.text)
            after = await prober.attempt(each.row, each.text)
            outcomes += [_compare(FORMER, each, verdict) for verdict in (beside, after)]
    return outcomes


async def probe_replays(
    prober: Prober, rows: Sequence[AnyRow], scripts: Sequence[GoldScript]
) -> list[ProbeOutcome]:
    """Make the calls of a few tasks twice, and compare what the tools say.

    A difference is no error of the verifier, so it is undecided; its reason names the first one.
    """
    outcomes: list[ProbeOutcome] = []
    for place, row in enumerate(rows):
        script = find_script(scripts, row)
        if script is None or not script.calls or len(outcomes) == _MOST_REPLAYED:
            continue
        try:
            first, again = [await prober.observe(row, script.calls) for _ in range(2)]
            difference = find_difference(script.calls, first, again)
            conclusion = Conclusion.UNDECIDED if difference else Conclusion.RIGHT
        except GymError as error:
            conclusion, difference = Conclusion.FAILED, error.failure.message
        outcomes.append(
            ProbeOutcome(
                f"task {place}", REPLAYED, Right.SAME, conclusion, probe=script.match, reason=difference
            )
        )
    return outcomes


def find_difference(calls: Sequence[Call], first: Sequence[str], again: Sequence[str]) -> str:
    """Return where two replays of calls differ first; an empty text if they say the same."""
    for number, (one, other) in enumerate(zip(first, again, strict=True), 1):
        if one != other:
            pairs = zip(one, other, strict=False)
            shorter = min(len(one), len(other))
            at = next((place for place, (a, b) in enumerate(pairs) if a != b), shorter)
            begin = max(0, at - _SHOWN // 2)
            said, now = (text[begin : begin + _SHOWN] for text in (one, other))
            return f"call {number} ({calls[number - 1][0]}) differs at character {at}: {said!r}, then {now!r}"
    return ""


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
