"""Reading the fields of an engine's answer, which may hold anything.

An absent field and a null say the same. A field of the wrong kind makes the answer `malformed_answer`: engines and
proxies do answer nonsense with HTTP 200, and no reading of it would be better than a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_gym.failures import EngineError


def malformed(field: str, told: str) -> EngineError:
    """The error that says what is wrong with `field` of the answer."""
    return EngineError(
        f"The engine's answer can't be read: `{field}` {told}.", code="malformed_answer", param=field
    )


def read_text(given: Mapping[str, Any], key: str, path: str) -> str | None:
    """The string under `key`; None where there is none."""
    value = given.get(key)
    if value is not None and not isinstance(value, str):
        raise malformed(f"{path}{key}", f"is {value!r:.80}, where a text belongs")
    return value


def read_required_text(given: Mapping[str, Any], key: str, path: str) -> str:
    """The string under `key`, which must be there."""
    value = read_text(given, key, path)
    if value is None:
        raise malformed(f"{path}{key}", "is missing")
    return value


def read_object(given: Mapping[str, Any], key: str, path: str) -> Mapping[str, Any]:
    """The object under `key`; an empty one where there is none."""
    value = given.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise malformed(f"{path}{key}", f"is {value!r:.80}, where an object belongs")
    return value


def read_objects(given: Mapping[str, Any], key: str, path: str) -> list[Mapping[str, Any]]:
    """The list of objects under `key`; an empty one where there is none."""
    value = given.get(key)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        raise malformed(f"{path}{key}", f"is {value!r:.80}, where a list of objects belongs")
    return value
