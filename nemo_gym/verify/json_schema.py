"""Validation of JSON values against a JSON Schema, with the path of each problem.

The dialect is the schema's `$schema`, by default draft 2020-12. References to other documents are not followed,
because a verdict must not depend on the network.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import jsonschema_rs
import orjson

from nemo_gym.failures import InputError

_MAX_PROBLEMS = 50
_LONGEST_MESSAGE = 300


def schema_problems(value: object, schema: Mapping[str, Any] | bool) -> list[str]:
    """Return at most 50 problems of `value` as `path: message`; empty when it fits `schema`.

    Raises InputError when the schema itself is invalid: that is an error of the task, not of the answer.
    """
    validator = _validator(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS))
    try:
        errors = islice(validator.iter_errors(value), _MAX_PROBLEMS)
    except UnicodeEncodeError:  # a lone surrogate, which JSON can spell and no Unicode text holds
        return ["$: a text is not valid Unicode"]
    return [f"{render_place(error.instance_path)}: {error.message[:_LONGEST_MESSAGE]}" for error in errors]


def fits_schema(value: object, schema: Mapping[str, Any] | bool) -> bool:
    """Return whether `value` fits `schema`. Raises InputError when the schema is invalid."""
    validator = _validator(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS))
    try:
        return bool(validator.is_valid(value))
    except UnicodeEncodeError:
        return False


def render_place(path: list[str | int]) -> str:
    """Return the path as text, such as `$.orders[2].id` for `["orders", 2, "id"]`."""
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


@lru_cache(maxsize=4096)
def _validator(schema: bytes) -> Any:
    def refuse(uri: str) -> Any:
        raise ValueError(f"{uri} is another document, and other documents are not fetched")

    try:
        return jsonschema_rs.validator_for(orjson.loads(schema), retriever=refuse)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        message = getattr(error, "message", None) or str(error)
        raise InputError(
            f"The JSON schema is not valid: {message}",
            code="invalid_schema",
            remedy="Correct it in the dataset.",
        ) from error
