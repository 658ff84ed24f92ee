"""Closing of schemas: every property of a schema becomes required, and no other is allowed.

Datasets of structured outputs use their schemas in this sense, regardless of `required`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resources_servers.structured_outputs.documents.leaf_types import Schema

_HOLD_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_HOLD_LISTS_OF_SCHEMAS = ("allOf", "anyOf", "oneOf", "prefixItems")
_HOLD_ONE_SCHEMA = ("items", "contains", "not", "if", "then", "else", "additionalProperties", "propertyNames")


def closed(schema: Schema) -> Schema:
    """Return `schema` with all of its objects closed. Only subschemas are visited, not `const` or `enum`."""
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = dict(schema)
    for name in _HOLD_SCHEMAS_BY_NAME:
        if name in result:
            result[name] = {key: closed(member) for key, member in result[name].items()}
    for name in _HOLD_LISTS_OF_SCHEMAS:
        if name in result:
            result[name] = [closed(member) for member in result[name]]
    for name in _HOLD_ONE_SCHEMA:
        if name in result:
            result[name] = closed(result[name])
    if "properties" in result:
        result |= {"required": list(result["properties"]), "additionalProperties": False}
    return result
