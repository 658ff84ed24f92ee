"""JSON of unknown form: the object in a text, a member of an object, numbers of any size, texts that JSON can hold.

orjson makes a float of an integer of more than 64 bit, and refuses to write one. `parse_json` and `dump_json` keep such
integers, and cost no second parse of a text without them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

__all__ = ["member", "object_in"]

LARGEST_FLOAT: Final = sys.float_info.max
MAX_DEPTH = 190
"""Levels of objects and lists in a task row: pydantic reads 200, and requests put rows into objects of their own."""
_LARGEST, _SMALLEST = (1 << 64) - 1, -(1 << 63)
"""The integers that orjson reads and writes."""
_ROUNDED_ABOVE, _ROUNDED_BELOW = float(1 << 64), float(-(1 << 63))
_DIGITS_ALIKE = bytes(ord("0") if chr(byte).isdecimal() else ord(" ") for byte in range(256))
_NINETEEN = b"0" * 19
"""A run of digits that every integer of more than 64 bit has, once `_DIGITS_ALIKE` has made them alike."""
_STRING_OR_HUGE = re.compile(rb'"(?:[^"\\]|\\.)*"|(-?[0-9]{309,})(?![0-9.eE])', re.DOTALL)
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\(u[dD][89a-fA-F][\da-fA-F]{2})|\\.",
    re.DOTALL,
)
"""An escape in a JSON text. The group is one half of a character, without the other."""
_REPLACEMENT: Final = rb"\ufffd"
_SURROGATES = re.compile("[\ud800-\udfff]")


def object_in(text: bytes | str) -> dict[str, Any] | None:
    """Return the JSON object that `text` is; None for other JSON, and for what is not JSON."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


def parse_object(text: bytes) -> dict[str, Any] | None:
    """Return the JSON object that any program wrote: as `object_in`, and also with halves of characters.

    Python's `json` writes a half as an escape such as `\\ud800`, and orjson reads none. A half is read as U+FFFD.
    """
    found = object_in(text)
    if found is None and (whole := _ESCAPE.sub(_replace_half, text)) != text:
        return object_in(whole)
    return found


def _replace_half(escape: re.Match[bytes]) -> bytes:
    return _REPLACEMENT if escape[1] else escape[0]


def member(value: object, *names: str) -> Any:
    """Return the member of objects in objects; None if one of them lacks it or is no object."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def finite_number(value: object) -> float | None:
    """Return the value as a float, booleans as 0 and 1; None for NaN, infinities and other types."""
    if not isinstance(value, int | float):  # and booleans, which are integers
        return None
    return float(value) if -LARGEST_FLOAT <= value <= LARGEST_FLOAT else None


def describe_kind(value: object) -> str:
    """Return the JSON type of a value, with its article."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")


def replace_surrogates(text: str) -> str:
    """Return `text` with U+FFFD for each surrogate: a Python text may have them, UTF-8 and most parsers do not."""
    return _SURROGATES.sub("\ufffd", text)


class JsonForm(NamedTuple):
    """The form of a parsed JSON value."""

    depth: int
    """Levels of objects and lists in each other; 0 for any other value."""
    may_be_rounded: bool
    """Whether a float in it may stand for an integer of more than 64 bit."""


def measure_form(value: Any) -> JsonForm:
    """Measure a value, level by level."""
    depth, may_be_rounded = 0, False
    level: list[Any] = [[value]]
    while True:
        inner: list[Any] = []
        for each in level:
            items = each.values() if type(each) is dict else each
            kinds = set(map(type, items))
            if float in kinds and not may_be_rounded:
                may_be_rounded = any(
                    type(item) is float and (item >= _ROUNDED_ABOVE or item <= _ROUNDED_BELOW)
                    for item in items
                )
            if dict in kinds or list in kinds:
                inner += [item for item in items if type(item) is dict or type(item) is list]
        if not inner:
            return JsonForm(depth, may_be_rounded)
        depth += 1
        level = inner


def parse_json(text: bytes | str) -> Any:
    """Parse JSON with integers of any size. Raises `orjson.JSONDecodeError` as `orjson.loads`.

    An integer that no float can hold becomes the text of its digits, because most readers of JSON refuse it.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        encoded = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        quoted = _STRING_OR_HUGE.sub(lambda found: b'"%b"' % found[1] if found[1] else found[0], encoded)
        if quoted == encoded:
            raise
        return parse_json(quoted)
    encoded = text.encode() if isinstance(text, str) else text
    if not may_have_long_integers(encoded) or not measure_form(value).may_be_rounded:
        return value
    try:
        return json.loads(text)
    except RecursionError as error:
        raise orjson.JSONDecodeError("nested too deeply for its long integers", str(text), 0) from error


def dump_json(value: Any, default: Callable[[Any], Any] | None = None, option: int | None = None) -> bytes:
    """Dump a value as `orjson.dumps` does, and integers of any size."""
    try:
        return orjson.dumps(value, default=default, option=option)
    except orjson.JSONEncodeError as error:
        try:
            has_long_integers = any(find_long_integers(value))
        except RecursionError:  # too deep for orjson, too
            raise error from None
        if not has_long_integers:
            raise
        return orjson.dumps(_insert_fragments(value), default=default, option=option)


def find_long_integers(value: Any, place: str = "") -> Iterator[str]:
    """Yield the places of the integers in a value that have more than 64 bit, such as `inputs[0].n`."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from find_long_integers(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from find_long_integers(item, f"{place}[{number}]")
    elif _is_long(value):
        yield place or "the value"


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and not _SMALLEST <= value <= _LARGEST


def _insert_fragments(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _insert_fragments(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_insert_fragments(item) for item in value]
    return orjson.Fragment(str(value)) if _is_long(value) else value


def may_have_long_integers(text: bytes) -> bool:
    """Return whether a JSON text may have an integer of more than 64 bit, which `orjson.loads` makes a float."""
    return _NINETEEN in text.translate(_DIGITS_ALIKE)


def is_odd(text: bytes) -> bool:
    """Return whether a JSON text may have more than `MAX_DEPTH` levels, or an integer of more than 64 bit.

    It counts brackets and digits, in strings too: 1 µs for 1 KB, where measuring the parsed value takes 2.
    """
    return text.count(b"{") + text.count(b"[") > MAX_DEPTH or may_have_long_integers(text)
