"""A deterministic, plausible value for a JSON schema.

The value conforms to `const`, `enum`, `default`, `examples`, types, bounds, lengths, `format`, `required`, `$ref`,
`allOf`, and the first usable branch of `anyOf` and `oneOf`. It matches a `pattern` if one of a few common strings
does. `not`, `if` and `dependentSchemas` are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import orjson

Schema: TypeAlias = Mapping[str, Any]

DEPTH_OF_REQUIRED_ONLY = 6
"""From this depth on only required properties are filled, which ends recursive schemas."""
DEPTH_LIMIT = 32

_BY_FORMAT = {
    "date": "2025-01-15",
    "date-time": "2025-01-15T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "ada@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "url": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_PATTERN_CANDIDATES = (
    *_BY_FORMAT.values(),
    *("a", "A", "0", "1", "abc", "ABC", "abc-1", "ABC123", "A1", "123", "1234", "12345", "12:00", "#a1b2c3"),
    *("a b", "en-US", "/a/b", "a.b", "$1.00", "1.0", "1.0.0", "+15550100", "555-0100", ""),
)


def plausible_arguments(parameters: Schema) -> str:
    """Return arguments for a tool with these `parameters`, as the JSON text of an object."""
    return _build_arguments(orjson.dumps(parameters))


@lru_cache(maxsize=4_096)  # a run's tasks declare the same few tools
def _build_arguments(parameters: bytes) -> str:
    value = plausible_value(orjson.loads(parameters))
    return orjson.dumps(value if isinstance(value, dict) else {}).decode()


def plausible_value(schema: Schema | bool, name: str = "value") -> Any:
    """Return a value that `schema` accepts. Strings without any other hint are made from `name`.

    Raises ValueError for an endlessly recursive schema and for a reference to a missing definition.
    """
    root = schema if isinstance(schema, Mapping) else {}
    return _Filler(root).value(schema, name, 0)


class _Filler:
    def __init__(self, root: Schema) -> None:
        self._root = root

    def value(self, schema: Schema | bool, name: str, depth: int) -> Any:
        if depth > DEPTH_LIMIT:
            raise ValueError(f"The JSON schema of {name!r} refers to itself without an end.")
        if not isinstance(schema, Mapping):
            return name
        schema = self._resolve(schema)
        for keyword in ("const", "default"):
            if keyword in schema:
                return schema[keyword]
        for keyword in ("enum", "examples"):
            if isinstance(schema.get(keyword), list) and schema[keyword]:
                return schema[keyword][0]
        for keyword in ("anyOf", "oneOf"):
            if schema.get(keyword):
                rest = {key: value for key, value in schema.items() if key != keyword}
                return self.value(_merge(rest, self._branch(schema[keyword])), name, depth + 1)
        return self._fill_typed(schema, name, depth)

    def _resolve(self, schema: Schema) -> Schema:
        """Return the schema with `$ref` and `allOf` merged in."""
        for _ in range(DEPTH_LIMIT):
            if "$ref" in schema:
                rest = {key: value for key, value in schema.items() if key != "$ref"}
                schema = _merge(self._lookup(schema["$ref"]), rest)
            elif schema.get("allOf"):
                merged: Schema = {key: value for key, value in schema.items() if key != "allOf"}
                for part in schema["allOf"]:
                    merged = _merge(merged, self._resolve(part))
                schema = merged
            else:
                return schema
        raise ValueError("A `$ref` of the JSON schema refers to itself without an end.")

    def _lookup(self, reference: str) -> Schema:
        found: Any = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            if not step:
                continue
            found = (
                found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
            )
        if not isinstance(found, Mapping):
            raise ValueError(f"The JSON schema refers to {reference!r}, which it doesn't hold.")
        return found

    def _branch(self, branches: Sequence[Schema]) -> Schema:
        """Return the first branch that is not null."""
        resolved = [self._resolve(branch) for branch in branches if isinstance(branch, Mapping)]
        return next((branch for branch in resolved if branch.get("type") != "null"), {"type": "null"})

    def _fill_typed(self, schema: Schema, name: str, depth: int) -> Any:
        match _find_type(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, name, depth)
            case "integer" | "number" as kind:
                return _number(schema, is_integer=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return _string(schema, name)

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        properties: Mapping[str, Any] = schema.get("properties") or {}
        required: Sequence[str] = schema.get("required") or ()
        # Hand-written schemas often have no `required`; then every property is filled.
        takes_all = "required" not in schema and depth < DEPTH_OF_REQUIRED_ONLY
        names = list(properties) if takes_all else [name for name in properties if name in required]
        names += [name for name in required if name not in properties]
        filled = {name: self.value(properties.get(name, {}), name, depth + 1) for name in names}
        values_schema = schema.get("additionalProperties")
        for number in range(len(filled), schema.get("minProperties", 0)):
            filled[f"key_{number}"] = self.value(values_schema or {}, f"key_{number}", depth + 1)
        return filled

    def _array(self, schema: Schema, name: str, depth: int) -> list[Any]:
        prefix: Sequence[Schema] = schema.get("prefixItems") or ()
        items = schema.get("items", {})
        few = 0 if depth >= DEPTH_OF_REQUIRED_ONLY or schema.get("maxItems") == 0 or items is False else 1
        length = max(schema.get("minItems", few), len(prefix))
        return [
            self.value(prefix[place] if place < len(prefix) else items, f"{name} {place + 1}", depth + 1)
            for place in range(length)
        ]


def _merge(first: Schema, second: Schema) -> Schema:
    """Merge two schemas. The second has precedence."""
    merged = {**first, **second}
    if "properties" in first and "properties" in second:
        merged["properties"] = {**first["properties"], **second["properties"]}
    if "required" in first and "required" in second:
        merged["required"] = list(dict.fromkeys((*first["required"], *second["required"])))
    return merged


def _find_type(schema: Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return str(next((one for one in kind if one != "null"), "null"))
    if isinstance(kind, str):
        return kind
    if "properties" in schema or "required" in schema:
        return "object"
    if "items" in schema or "prefixItems" in schema:
        return "array"
    return "number" if "minimum" in schema or "maximum" in schema else "string"


def _number(schema: Schema, *, is_integer: bool) -> int | float:
    """Return 1 if the schema allows it, otherwise a number at or near one of its bounds."""
    low = max(schema.get("minimum", -math.inf), schema.get("exclusiveMinimum", -math.inf))
    high = min(schema.get("maximum", math.inf), schema.get("exclusiveMaximum", math.inf))
    step = schema.get("multipleOf", 1 if is_integer else None)
    wishes = [wish for wish in (1, low, high, low + 1, high - 1, (low + high) / 2) if math.isfinite(wish)]
    if step is not None:
        wishes = [round(wish / step + away) * step for wish in wishes for away in (0, 1, -1)]
    shut_out = (schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum"))
    fitting = (wish for wish in wishes if low <= wish <= high and wish not in shut_out)
    value = next(fitting, 1)
    return int(value) if is_integer else value


def _string(schema: Schema, name: str) -> str:
    shortest: int = schema.get("minLength", 0)
    longest: int | float = schema.get("maxLength", math.inf)
    if "pattern" in schema:
        fitting = [text for text in (name, *_PATTERN_CANDIDATES) if shortest <= len(text) <= longest]
        return next((text for text in fitting if _has_pattern(text, schema["pattern"])), name)
    text = _BY_FORMAT.get(schema.get("format", ""), name)
    if len(text) > longest:
        return text[: int(longest)]
    return text if len(text) >= shortest else text + "x" * (shortest - len(text))


def _has_pattern(text: str, pattern: str) -> bool:
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return True  # Python cannot compile this JavaScript expression, so any text is as good
