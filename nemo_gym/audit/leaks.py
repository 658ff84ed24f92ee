"""The expected answer within reach of a policy before it answers: in what the environment says at the start."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.audit.answer_types import AnswerType, ExpectedAnswer
from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right
from nemo_gym.json_objects import dump_json
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params

LEAK = "answer within reach"
_SHORTEST = 4
"""Shorter answers stand anywhere by chance."""


def find_leak(
    task: str, answer: ExpectedAnswer, row: AnyRow, seeded: Mapping[str, Any]
) -> ProbeOutcome | None:
    """Return where the answer stands: in the answer of `/seed_session` or a tool's description; None for a short one.

    A choice stands in its prompt by design, so only other types are searched.
    """
    if (
        answer.type in (AnswerType.CHOICE, AnswerType.UNKNOWN, AnswerType.CALLS, AnswerType.CODE)
        or len(answer.gold) < _SHORTEST
    ):
        return None
    places = {
        "the answer of /seed_session": seeded,
        "the descriptions of tools": read_params(row).get("tools"),
    }
    found = [place for place, value in places.items() if answer.gold in dump_json(value).decode()]
    conclusion = Conclusion.FALSE_ACCEPT if found else Conclusion.RIGHT
    reason = f"it stands in {' and in '.join(found)}" if found else ""
    return ProbeOutcome(task, LEAK, Right.REJECT, conclusion, 0.0, answer.gold, reason)
