"""Repairs and compares the `arguments` of tool calls in a history, which engines parse again on every later turn.

vLLM rejects a whole conversation with HTTP 400 if one earlier call has malformed arguments. Such arguments are
replaced in requests only; the model's answer is stored unchanged.
"""

from __future__ import annotations

import json
from functools import lru_cache

import orjson

from nemo_gym.json_objects import object_in
from nemo_gym.responses.dialects import BadArguments
from nemo_gym.responses.problems import ConversionProblems

NO_ARGUMENTS = "{}"
_LARGEST_EXACT = 2**53
"""Smaller integers have a float of their own."""
_MOST_KEPT, _LONGEST_KEPT = 4_096, 4_096
"""Texts and characters of each whose canonical form is kept: every later turn of a conversation asks for it again."""


def is_json_object(text: str) -> bool:
    """Return whether Python's `json`, which engines use, parses `text` as an object."""
    return object_in(text) is not None or _is_lenient_json_object(text)


def _is_lenient_json_object(text: str) -> bool:
    # Engines accept NaN, Infinity and lone surrogates; orjson does not.
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def check_arguments(arguments: str, policy: BadArguments, field: str, problems: ConversionProblems) -> str:
    """Return `arguments` unchanged if they are valid; otherwise apply `policy` and add a note or a problem."""
    if policy is BadArguments.KEEP or is_json_object(arguments):
        return arguments
    if policy is BadArguments.REFUSE:
        problems.add(field, "is not the JSON text of an object")
        return arguments
    problems.note("sanitised_arguments", field, "was not the JSON text of an object and was replaced")
    if policy is BadArguments.EMPTY or not arguments.strip():
        return NO_ARGUMENTS
    return orjson.dumps({"_raw": arguments}).decode()


def canonical_arguments(arguments: str) -> str:
    """Return the same text for all JSON texts of one value; `arguments` itself if they are not JSON.

    White space, escapes and the order of keys differ between JSON libraries, and JavaScript writes `1.0` as `1`.
    """
    return (_canonical if len(arguments) > _LONGEST_KEPT else _kept_canonical)(arguments)


def _canonical(arguments: str) -> str:
    try:
        value = json.loads(arguments, parse_float=_plain_number)
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments


_kept_canonical = lru_cache(_MOST_KEPT)(_canonical)


def _plain_number(text: str) -> float | int:
    number = float(text)
    return int(number) if number.is_integer() and abs(number) < _LARGEST_EXACT else number
