"""Plain values in the grammar of overrides, for programs that build a command line."""

from __future__ import annotations

import re
from collections.abc import Mapping

_BEFORE_QUOTE = re.compile(r'(\\*)("|$)')


def spell(value: object) -> str:
    """Return a plain value as the right-hand side of an override. Text is quoted, so that it stays text."""
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{spell(below)}" for key, below in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(spell, value))}]"
    if isinstance(value, str):
        return f'"{_BEFORE_QUOTE.sub(_escape, value)}"'
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _escape(found: re.Match[str]) -> str:
    """A backslash is an escape only in front of a quote."""
    return found[1] * 2 + ('\\"' if found[2] else "")
