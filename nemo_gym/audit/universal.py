"""Answers that win many tasks of an environment, whatever the tasks ask.

The same short answers (`nemo_gym.verify.lucky_answers`) are tried at many tasks. One that is accepted once may be right
there; one that wins a tenth of the tasks whose own answer it is not is a universal answer, and each of its wins is a
false accept.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nemo_gym.audit.adversary import SCRIPT
from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome
from nemo_gym.verify.lucky_answers import SHORT_ANSWERS, is_same_answer

UNIVERSAL = "universal answer"
_BLIND = (UNIVERSAL, SCRIPT)
"""Attempts that are the same at all tasks."""
_LEAST_WINS, _LEAST_SHARE = 2, 0.1
_LEAST_SHARE_OF_UNKNOWN = 0.5
"""Where the expected answer is not known, a short answer may be right at many tasks, such as those about form."""


ALWAYS_TRIED = ("nan", "inf", "0", "1", "-1", "None", "True", "[]", "{}", "x", "A", "yes")
"""Short answers that are tried in every audit."""


def draw_universal_answers(count: int, seed: int) -> list[str]:
    """Return `count` of the short answers, the same for every task of an audit."""
    others = [answer for answer in SHORT_ANSWERS if answer not in ALWAYS_TRIED]
    return [*ALWAYS_TRIED, *sorted(random.Random(seed).sample(others, count - len(ALWAYS_TRIED)))]


def is_own_answer(golds: Sequence[str], answer: str) -> bool:
    """Return whether a short answer is one of a task's own, in another spelling."""
    return any(is_same_answer(gold, answer) for gold in golds)


def settle_universal(outcomes: Iterable[ProbeOutcome]) -> list[ProbeOutcome]:
    """Decide the wins of short answers, and of an adversary's scripts, by how many tasks each of them won."""
    all_outcomes = list(outcomes)
    tried: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    for outcome in all_outcomes:
        if outcome.kind in _BLIND and outcome.reward is not None:
            tried[outcome.kind, outcome.probe].append(outcome.conclusion is not Conclusion.RIGHT)
    return [_settle(outcome, tried[outcome.kind, outcome.probe]) for outcome in all_outcomes]


def _settle(outcome: ProbeOutcome, wins: Sequence[bool]) -> ProbeOutcome:
    if outcome.kind not in _BLIND or outcome.conclusion in (Conclusion.RIGHT, Conclusion.FAILED):
        return outcome
    is_unsure = outcome.conclusion is Conclusion.UNDECIDED
    share = _LEAST_SHARE_OF_UNKNOWN if is_unsure else _LEAST_SHARE
    if sum(wins) >= _LEAST_WINS and sum(wins) >= share * len(wins):
        reason = f"it wins {sum(wins)} of {len(wins)} tasks"
        return replace(outcome, conclusion=Conclusion.FALSE_ACCEPT, reason=reason)
    reason = "it wins this task alone, where it may be right"
    return replace(outcome, conclusion=Conclusion.UNDECIDED, reason=reason)
