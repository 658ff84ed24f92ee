"""The `arguments` of tool calls in a history: a JSON text that engines parse again on every later turn.

vLLM answers HTTP 400 to a whole conversation when one earlier call has malformed arguments, so what can't be
parsed is replaced before it is sent. The answer that the model gave keeps its own words.
"""

from __future__ import annotations

import json

import orjson

from nemo_gym.responses.dialects import BadArguments
from nemo_gym.responses.problems import ConversionProblems, Note

NO_ARGUMENTS = "{}"


def is_json_object(text: str) -> bool:
    """Whether an engine that reads `text` with Python's `json` gets an object."""
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return _is_lenient_json_object(text)


def _is_lenient_json_object(text: str) -> bool:
    # NaN, Infinity and lone surrogates are refused by orjson and accepted by engines.
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def checked_arguments(
    arguments: str, policy: BadArguments, field: str, problems: ConversionProblems, notes: list[Note]
) -> str:
    """`arguments` as they can be sent: themselves, or with a note what stands for them."""
    if policy is BadArguments.KEEP or is_json_object(arguments):
        return arguments
    if policy is BadArguments.REFUSE:
        problems.add(field, "is not the JSON text of an object")
        return arguments
    notes.append(Note("sanitised_arguments", field, "was not the JSON text of an object and was replaced"))
    if policy is BadArguments.EMPTY or not arguments.strip():
        return NO_ARGUMENTS
    return orjson.dumps({"_raw": arguments}).decode()
