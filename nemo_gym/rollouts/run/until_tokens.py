"""The tokens that a run with `until` has spent, and the ceiling after which it draws no more.

An engine tells the tokens of an attempt when the attempt is over. So a run exceeds its ceiling by the tokens of the
rollouts that were in flight when the count reached it, their further attempts included, and by nothing else. An attempt
that ends without an answer has no count.
"""

from __future__ import annotations

from dataclasses import dataclass

from nemo_gym.rollouts.run.stopping import StopReason
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import count_tokens
from nemo_gym.rows.verdict import read_reward

_BLIND_ROWS = 16
"""A ceiling is refused if none of this number of rows has a count."""


@dataclass(slots=True)
class TokenCount:
    """The tokens of a run's attempts, in all of its starts."""

    most: int | None
    """The ceiling; None without one."""
    spent: int = 0
    """The tokens of prompts and answers."""
    uncounted: int = 0
    """Scored rows without a count."""

    def add(self, row: AnyRow) -> None:
        """Add the tokens of an attempt."""
        tokens = count_tokens(row)
        if tokens is not None:
            self.spent += tokens
        elif read_reward(row) is not None:
            self.uncounted += 1

    @property
    def is_spent(self) -> bool:
        """Return whether the ceiling is reached."""
        return self.most is not None and self.spent >= self.most

    def find_fault(self) -> StopReason | None:
        """Return why the ceiling cannot be kept; None while it can."""
        if self.most is None or self.spent or self.uncounted < _BLIND_ROWS:
            return None
        return StopReason(
            "tokens_unknown",
            f"none of the first {self.uncounted} rows has a count of tokens (`response.usage`), so the run cannot keep "
            f"+max_total_tokens={self.most}",
            "Let the engine or the agent report its usage. Or resume with +max_rollouts in its place.",
        )
