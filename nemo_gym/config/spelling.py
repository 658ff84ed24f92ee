"""Plain values in the grammar of overrides, and keys in messages as the user types them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from nemo_gym.config.problems import did_you_mean

_BEFORE_QUOTE = re.compile(r'(\\*)("|$)')
_FLAGS: ContextVar[Mapping[str, tuple[str, bool]] | None] = ContextVar("flags", default=None)
_BOTH_WAYS = re.compile(r"\+[\w.]+(?:=\S+)?(?: \+[\w.]+=\S+)*\s\(gym:\s(-[^)]*)\)")
_TWICE = re.compile(r"(?<!\S)(--[\w-]+)\s\(\1\)")
_LONG_NAME = re.compile(r"\b(gym(?: [a-z-]+){1,2}) \(ng_\w+\)")
_KEY = re.compile(r'(?<![\w+])\+{1,2}(\w+)(?:=("[^"]*"|[^\s,;)]*[^\s,;).]))?(?![\w.=])')


@contextmanager
def flags_typed(flags: Mapping[str, tuple[str, bool]]) -> Iterator[None]:
    """Within the block, `spell_keys` writes keys as the options of a short command, and commands by their short names.

    `flags`: key → its option, and whether that takes no value.
    """
    token = _FLAGS.set(flags)
    try:
        yield
    finally:
        _FLAGS.reset(token)


def spell_keys(text: str) -> str:
    """Return a message whose keys are written as the options of the short command that runs, if one does.

    `gym env start (ng_run)` is `gym env start` then.
    """
    flags = _FLAGS.get()
    if flags is None:
        return text

    def spell_key(found: re.Match[str]) -> str:
        flag, is_switch = flags.get(found[1], ("", False))
        if not flag or (is_switch and found[2] not in (None, "true")):
            return found[0]
        return flag if is_switch or found[2] is None else " ".join([flag, found[2].strip('"')])

    text = _LONG_NAME.sub(r"\1", text)
    return _TWICE.sub(r"\1", _KEY.sub(spell_key, _BOTH_WAYS.sub(r"\1", text)))


def suggest_option(key: str) -> str | None:
    """Return `Did you mean '--x'?` for the options of the short command that runs which resemble a key, or None."""
    options = [option for option, _ in (_FLAGS.get() or {}).values()]
    return did_you_mean(f"--{key.replace('_', '-')}", options)


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
