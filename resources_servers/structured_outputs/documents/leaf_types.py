"""Conversion of the text in XML and CSV to the numbers, booleans, nulls and arrays of a schema.

Text that does not fit the type stays text, so that the validation against the schema reports it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any] | bool

_MOST_VIEWS = 50
"""Maximum number of schemas that apply to one place, through alternatives and references."""


def typed_by_schema(value: object, schema: Schema, root: Schema | None = None) -> object:
    """Convert the text leaves of `value` to the types of `schema`. `root` resolves its local references."""
    root = schema if root is None else root
    views = list(_views(schema, root))
    types = {name for view in views for name in _types_of(view)}
    if isinstance(value, str) and types != {"array"}:
        return _typed_text(value, types)
    if "array" in types and not (isinstance(value, dict) and "object" in types):
        return _typed_array(value, views, root)
    if isinstance(value, dict):
        return {name: typed_by_schema(member, _property(name, views), root) for name, member in value.items()}
    if isinstance(value, list):
        return [typed_by_schema(member, True, root) for member in value]
    return value


_TRUTH = {"true": True, "false": False}


def _typed_text(text: str, types: set[str]) -> object:
    if not text and "null" in types:
        return None
    if not text and types == {"object"}:
        return {}
    if "boolean" in types and text.lower() in _TRUTH:
        return _TRUTH[text.lower()]
    if types & {"integer", "number"} and _NUMBER.fullmatch(text):
        return int(text) if _INTEGER.fullmatch(text) else float(text)
    return text


_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,199})")
_NUMBER = re.compile(rf"{_INTEGER.pattern}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{{1,2}})?")
"""Numbers as JSON writes them: `01` and digits that are not ASCII are text."""


def _typed_array(value: object, views: list[Mapping[str, Any]], root: Schema) -> list[object]:
    first = next((list(view["prefixItems"]) for view in views if "prefixItems" in view), [])
    others = next((view["items"] for view in views if "items" in view), True)
    members = _members_of_array(value, (first or [others])[0], root)
    schemas = [*first, *[others] * (len(members) - len(first))]
    return [typed_by_schema(member, schema, root) for member, schema in zip(members, schemas, strict=False)]


def _members_of_array(value: object, items: Schema, root: Schema) -> list[object]:
    """Return the members of an array: repeated elements, a single element, or the children of a wrapper element."""
    if isinstance(value, list):
        return value
    if value == "":
        return []
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if not any(name in view.get("properties", {}) for view in _views(items, root)):
            return inner if isinstance(inner, list) else [inner]
    return [value]


def _property(name: str, views: list[Mapping[str, Any]]) -> Schema:
    return next((view["properties"][name] for view in views if name in view.get("properties", {})), True)


def _types_of(view: Mapping[str, Any]) -> list[str]:
    named = view.get("type", [])
    return [named] if isinstance(named, str) else list(named)


def _views(schema: Schema, root: Schema) -> Iterator[Mapping[str, Any]]:
    """Yield `schema` and the schemas that it combines or references in the same document."""
    waiting = [schema]
    for _ in range(_MOST_VIEWS):
        if not waiting:
            return
        view = waiting.pop(0)
        if not isinstance(view, Mapping):
            continue
        yield view
        waiting += [part for name in ("allOf", "anyOf", "oneOf") for part in view.get(name, ())]
        if isinstance(view.get("$ref"), str):
            waiting.append(_referred(view["$ref"], root))


def _referred(reference: str, root: Schema) -> Schema:
    """Return the schema at a reference like `#/$defs/address`; True, which allows everything, when there is none."""
    place: Any = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        place = place.get(name, True) if isinstance(place, Mapping) else True
    return place if isinstance(place, Mapping) and reference.startswith("#") else True
