"""The beginning of a conversation whose chat messages are known.

An agent sends its whole conversation with every call, and most of it was in the call before. A model server that keeps
a session's last request converts only the items that are new.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nemo_gym.responses.dialects import Dialect


@dataclass(slots=True)
class KnownBeginning:
    """The items at the beginning of a request, and their chat messages, which no later item changes."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    _items: list[Any] = field(default_factory=list)
    _about: tuple[object, Dialect | None] = (None, None)
    """The instructions, whose message is the first, and the dialect."""

    def count_known(self, items: list[Any], instructions: object, dialect: Dialect) -> int:
        """Return the number of items with which a request begins and whose messages are known: all of them, or 0."""
        count = len(self._items)
        is_known = self._about == (instructions, dialect) and items[:count] == self._items
        return count if is_known else 0

    def keep(
        self,
        items: list[Any],
        messages: list[dict[str, Any]],
        instructions: object,
        dialect: Dialect,
    ) -> None:
        self._items, self.messages, self._about = items, messages, (instructions, dialect)
