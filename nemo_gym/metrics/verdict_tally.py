"""Whether all rewards of an agent are 0, and by which cause; how many answers are empty, or broke their verifier.

Rewards that are all 0 may be right. They may also mean that no answer can be: an expected answer in a form that the
verifier never finds equal, or a place of the answer at which the policy never writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from nemo_gym.failures import Outcome
from nemo_gym.json_objects import finite_number, member
from nemo_gym.responses.wire import read_content_text
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_output, read_response, read_timing
from nemo_gym.rows.verdict import read_answer_fault, read_outcome, read_reward

FEWEST_REWARDS = 5
"""Fewer rewards of 0 may be chance."""
_CAUSE = re.compile(r"(?:[a-zA-Z]\w*_)?(?:reason|fault|error_type|failure_kind)|extracted_\w+")
"""Matches the names of a verdict's fields that say why it is as it is, or which answer was found."""
_SHOWN = 60
_BEST_REWARD = "best_reward"
"""The key of a task row whose best reward is not 1."""


class VerdictTally:
    """Counts the scored rows of an agent."""

    def __init__(self) -> None:
        self.count = 0
        self.empty = 0
        """Rollouts that completed with an empty answer."""
        self._broken = 0
        self._first_fault = ""
        self._above_best = 0
        self._highest = 0.0
        self._are_zero = True
        self._causes: dict[str, object] | None = None
        """The fields that all rows have with the same value."""

    def add(self, row: AnyRow) -> None:
        """Count a scored row. Unverified rows have no verdict."""
        self.count += 1
        self.empty += has_empty_answer(row)
        if (fault := read_answer_fault(row)) is not None:
            self._broken += 1
            self._first_fault = self._first_fault or fault
        reward, best = read_reward(row) or 0.0, finite_number(row.get(_BEST_REWARD))
        if reward > (1.0 if best is None else best):
            self._above_best += 1
            self._highest = max(self._highest, reward)
        if not self._are_zero:
            return
        timing = read_timing(row)
        self._are_zero = read_reward(row) == 0 and ("verify" in timing or not timing)
        if self._causes is None:
            self._causes = {name: value for name, value in row.items() if _CAUSE.fullmatch(name)}
        for name in [name for name, value in self._causes.items() if row.get(name) != value]:
            del self._causes[name]

    @property
    def _is_suspect(self) -> bool:
        """Whether all rewards are 0, and not by chance."""
        return self._are_zero and self.count >= FEWEST_REWARDS

    def describe_faults(self) -> str | None:
        """Return in words how many answers broke their verifier; None if none did, or if `describe` tells it."""
        if not self._broken or self._is_suspect:
            return None
        return (
            f"{self._broken:,} of {self.count:,} answers broke `verify` and got 0 (`answer_fault`), first: "
            f"{self._first_fault}. If a right answer can do that, the verifier is wrong."
        )

    def describe_best(self) -> str | None:
        """Return in words how many rewards are above the best one of their task."""
        if not self._above_best:
            return None
        return (
            f"{self._above_best:,} of {self.count:,} rewards are above 1 and their rows state no higher `best_reward`; "
            f"the highest is {self._highest:g}."
        )

    def describe(self) -> str | None:
        """Return the cause in words if all rewards are 0."""
        if not self._is_suspect:
            return None
        if self._broken:
            return (
                f"all {self.count:,} rewards are 0, {self._broken:,} of them because the answer broke `verify` "
                f"(`answer_fault`), first: {self._first_fault}. If a right answer can do that, correct `verify` first."
            )
        causes = [
            f"`{name}` is {'null' if value is None else str(value)[:_SHOWN]}"
            for name, value in (self._causes or {}).items()
            if isinstance(value, str) or (value is None and name.startswith("extracted_"))
        ]
        where = f", and {' and '.join(causes)} in all of them" if causes else ""
        return f"all {self.count:,} rewards are 0{where}. Compare an answer with the expected one: can any be equal?"


def has_empty_answer(row: AnyRow) -> bool:
    """Return whether a row completed without an answer."""
    return read_outcome(row) is Outcome.COMPLETED and lacks_answer(row)


def lacks_answer(row: AnyRow) -> bool:
    """Return whether the policy's last message has neither text nor a tool call, or there is none.

    Reasoning is no answer. A row without a response lacks nothing.
    """
    if "output" not in read_response(row):
        return False
    last = next((item for item in reversed(read_output(row)) if _is_of_policy(item)), None)
    if last is None:
        return True
    content = last.get("content")
    is_refused = isinstance(content, list) and any(member(part, "refusal") for part in content)
    is_message = last.get("type", "message") == "message" and not last.get("tool_calls")
    return is_message and not is_refused and not read_content_text(content).strip()


def _is_of_policy(item: Mapping[str, Any]) -> bool:
    """Return whether an item is no reasoning, and no message of another role."""
    return item.get("type") != "reasoning" and item.get("role", "assistant") == "assistant"
