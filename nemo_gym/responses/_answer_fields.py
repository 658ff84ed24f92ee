"""Type-checked access to the fields of an engine's answer.

An absent field and a null are equal. A field of the wrong type raises `malformed_answer`: engines and proxies send
invalid answers with HTTP 200, and guessing their meaning would corrupt data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.failures import EngineError


def build_malformed_error(field: str, told: str) -> EngineError:
    """Return the error for an invalid `field` of the answer; `told` completes the sentence."""
    return EngineError(
        f"The engine's answer is invalid: `{field}` {told}.", code="malformed_answer", param=field
    )


def read_text(given: Mapping[str, Any], key: str, path: str) -> str | None:
    """Return the string under `key`, or None if it is absent."""
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise build_malformed_error(f"{path}{key}", f"is {value!r:.80}, where a text belongs")
    return value


def read_required_text(given: Mapping[str, Any], key: str, path: str) -> str:
    """Return the string under `key`. An absent string is an error."""
    value = read_text(given, key, path)
    if value is None:
        raise build_malformed_error(f"{path}{key}", "is missing")
    return value


def read_object(given: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any]:
    """Return the object under `key`; empty if it is absent."""
    value = given.get(key)
    if value is not None and not isinstance(value, dict):
        raise build_malformed_error(f"{path}{key}", f"is {value!r:.80}, where an object belongs")
    return value or {}


def read_objects(given: Mapping[str, Any], key: str, path: str) -> list[Mapping[str, Any]]:
    """Return the list of objects under `key`; empty if it is absent."""
    value = given.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        raise build_malformed_error(f"{path}{key}", f"is {value!r:.80}, where a list of objects belongs")
    return value
