"""The successive calls of each tool, over rollouts, that failed by the environment's fault with one cause.

A rollout counts when it is settled. A call that the model got wrong says nothing about the tool, so it is left out. A
rollout in which a call of the tool succeeded ends its streak. Calls without a route end no run, because environments
without any tool judge the calls themselves; one rollout alone ends none either, because its task may be at fault.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import TOOL_ERRORS_KEY
from nemo_gym.rows.tool_errors import (
    CountedError,
    FailedCall,
    ToolErrorKind,
    count_answered_calls,
    read_tool_errors,
)


@dataclass(slots=True)
class Streak:
    """Successive failed calls of one tool."""

    call: FailedCall
    """The first of them."""
    count: int = 0
    rollouts: int = 0


class ToolStreaks:
    """The streaks of all tools."""

    def __init__(self, longest: int) -> None:
        """`longest`: the calls of a streak that is reported; 0 for none."""
        self._longest = longest
        self._streaks: dict[str, Streak] = {}

    def add(self, row: AnyRow) -> Streak | None:
        """Count the calls of a scored row; return a streak that has become too long."""
        if not self._longest or (TOOL_ERRORS_KEY not in row and not self._streaks):
            return None
        errors: defaultdict[str, list[CountedError]] = defaultdict(list)
        for error in read_tool_errors(row):
            errors[error.call.tool].append(error)
        answered = count_answered_calls(row)
        for tool in {*answered, *errors}:
            if answered[tool] > sum(count for _, count in errors[tool]):
                self._streaks.pop(tool, None)
                continue
            for error in errors[tool]:
                if self._is_too_long(error):
                    return self._streaks[tool]
        return None

    def _is_too_long(self, error: CountedError) -> bool:
        """Add failed calls to the streak of their tool; return whether it is too long now."""
        call = error.call
        if not call.is_environments or call.kind is ToolErrorKind.NO_ROUTE:
            return False
        streak = self._streaks.get(call.tool)
        if streak is None or streak.call.cause_key != call.cause_key:
            streak = self._streaks[call.tool] = Streak(call)
        streak.count += error.times
        streak.rollouts += 1
        return streak.count >= self._longest and streak.rollouts > 1
