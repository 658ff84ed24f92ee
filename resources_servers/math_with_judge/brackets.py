"""The parts of a formula outside of its brackets."""

from __future__ import annotations

import re

from nemo_gym.verify.typesetting import strip_braces

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_TOKEN = re.compile(r"\\[{}]|\\(?:text|mathrm)\s*\{[^{}]*\}|\\[a-zA-Z]+|\\.|.", re.DOTALL)


def blank_brackets(text: str) -> str:
    """Return `text` with everything inside brackets replaced by spaces, of the same length."""
    kept, depth = [], 0
    for token in _TOKEN.finditer(text):
        part = token[0]
        mark = part[-1] if part in ("\\{", "\\}") or len(part) == 1 else ""
        if mark in _CLOSING and mark:
            depth = max(0, depth - 1)
        kept.append(part if depth == 0 else " " * len(part))
        if mark in _OPENING and mark:
            depth += 1
    return "".join(kept)


def split_outside_brackets(text: str, marks: re.Pattern[str]) -> list[str]:
    """Split `text` at `marks` outside of brackets."""
    parts, start = [], 0
    for mark in marks.finditer(blank_brackets(text)):
        parts.append(strip_braces(text[start : mark.start()]))
        start = mark.end()
    return [*parts, strip_braces(text[start:])]


def is_one_bracket(text: str) -> bool:
    """Return whether the first bracket closes at the end of `text`."""
    outside = blank_brackets(text)
    return not outside.removeprefix("\\")[1:-1].removesuffix("\\").strip()
