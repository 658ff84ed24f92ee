"""JSON in which the ids of prompts stay text.

An engine repeats the ids of the whole conversation with every answer, and rows in the contract's form repeat them with
every call. Parsing them again and again would cost more than all other work of a long rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import orjson

_NAME = "prompt_token_ids"
_OPENED = b'"%b":[' % _NAME.encode()
_MARK = "text"
"""The key of the object that stands for a list while the rest is parsed."""

Holders: TypeAlias = Callable[[Any], Iterable[dict[str, Any]]]
"""Returns the objects of a parsed value that may have the ids of a prompt."""


class IdText(NamedTuple):
    """Token ids in JSON, without the brackets."""

    text: bytes

    def decode(self) -> list[Any]:
        """Return the values. Raises `orjson.JSONDecodeError`, a ValueError."""
        values: list[Any] = orjson.loads(b"[%b]" % self.text)
        return values

    def begins(self, text: bytes) -> bool:
        """Return whether the ids in `text` begin with these."""
        return text.startswith(self.text) and text[len(self.text) : len(self.text) + 1] in (b",", b"")


def parse_lightly(body: bytes, holders: Holders) -> Any:
    """Parse JSON, with an `IdText` in the place of each list of a prompt's ids.

    A body that has such a list outside of its `holders` is parsed whole. Raises `orjson.JSONDecodeError`.
    """
    first, *rest = body.split(_OPENED)
    texts, parts = [], [first]
    for number, part in enumerate(rest):
        text, _, after = part.partition(b"]")
        texts.append(text)
        parts += (b'"%b":{"%b":%d}' % (_NAME.encode(), _MARK.encode(), number), after)
    if not texts:
        return orjson.loads(body)
    try:
        value = orjson.loads(b"".join(parts))
        found = [(holder, holder[_NAME][_MARK]) for holder in holders(value) if _is_mark(holder.get(_NAME))]
    except (ValueError, LookupError, TypeError, AttributeError):
        return orjson.loads(body)  # no list of ids, or a value of another form
    if len(found) != len(texts):
        return orjson.loads(body)
    for holder, number in found:
        holder[_NAME] = IdText(texts[number])
    return value


def read_ids(value: Any) -> Any:
    """Return a value, and ids that are text as a list. Raises ValueError for another text."""
    return value.decode() if isinstance(value, IdText) else value


def _is_mark(value: object) -> bool:
    return isinstance(value, dict) and value.keys() == {_MARK} and type(value[_MARK]) is int
