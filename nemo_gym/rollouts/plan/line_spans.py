"""The lines of a file that share a fault, as a text such as `1-20, 23`, so that a mistake of all rows is told once."""

from __future__ import annotations

_SHOWN = 5


class LineSpans:
    """Lines, added in the order of their file."""

    def __init__(self) -> None:
        self.count = 0
        self._spans: list[tuple[int, int]] = []

    def add(self, line: int) -> None:
        """Add a line; one that was added last is not counted again."""
        first, last = self._spans[-1] if self._spans else (0, 0)
        if line == last:
            return
        self.count += 1
        if line == last + 1 and self._spans:
            self._spans[-1] = (first, line)
        elif len(self._spans) <= _SHOWN:
            self._spans.append((line, line))

    @property
    def first(self) -> int:
        """The line that was added first."""
        return self._spans[0][0]

    def describe(self) -> str:
        """Return the lines in brackets, after a blank; nothing for a single line."""
        return f" (lines {self})" if self.count > 1 else ""

    def __str__(self) -> str:
        shown = self._spans[:_SHOWN]
        listed = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in shown)
        more = self.count - sum(last - first + 1 for first, last in shown)
        return f"{listed} and {more:,} more" if more else listed
