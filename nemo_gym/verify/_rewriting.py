"""Spellings of one thing made one: patterns and their replacements, applied one after another to a whole text."""

from __future__ import annotations

import re
from collections.abc import Iterable


class Rewriting:
    """A sequence of pairs of a pattern and its replacement, as `re.sub` reads them."""

    def __init__(self, pairs: Iterable[tuple[str, str]], flags: re.RegexFlag = re.NOFLAG) -> None:
        self._pairs = tuple((re.compile(pattern, flags), replacement) for pattern, replacement in pairs)

    def rewrite(self, text: str) -> str:
        """Return `text` after every replacement, in the order of the pairs."""
        for pattern, replacement in self._pairs:
            text = pattern.sub(replacement, text)
        return text
