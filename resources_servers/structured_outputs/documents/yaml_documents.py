"""Parse YAML with the 1.2 core schema, without tags, anchors and aliases.

YAML 1.1, the default of PyYAML, reads `no` as false and `2024-01-31` as a date, so that text would violate a schema
that requires text. The parser's events are checked before any value is built: aliases let a small document expand to
a huge one, and deep nesting exhausts the stack of the C parser.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from resources_servers.structured_outputs.documents.limits import MAX_DEPTH, DocumentError, too_deep

if TYPE_CHECKING:
    from yaml import SafeLoader as _FastLoader
else:
    _FastLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_TAG = "tag:yaml.org,2002:"


class _CoreLoader(_FastLoader):
    """A loader of null, booleans and numbers; every other scalar is text."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  # of PyYAML's class, filled below

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[str, object] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise DocumentError(f"line {key.start_mark.line + 1}: a key must be text")
            if key.value in mapping:
                raise DocumentError(f"line {key.start_mark.line + 1}: the key {key.value!r} is repeated")
            mapping[key.value] = self.construct_object(value, deep=True)
        return mapping

    def construct_int(self, node: yaml.ScalarNode) -> int:
        return int(node.value, 0 if node.value.startswith(("0o", "0x")) else 10)

    def construct_float(self, node: yaml.ScalarNode) -> float:
        return float(node.value)


def _resolve(name: str, pattern: str, *first: str) -> None:
    """Assign the tag `name` to plain scalars that match `pattern` and start with one of `first`."""
    _CoreLoader.add_implicit_resolver(_TAG + name, re.compile(rf"(?:{pattern})\Z"), list(first))


_resolve("null", "~|null|Null|NULL|", "~", "n", "N", "")
_resolve("bool", "true|True|TRUE|false|False|FALSE", *"tTfF")
_resolve("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", *"-+0123456789")
_resolve("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", *"-+.0123456789")
_CoreLoader.add_constructor(f"{_TAG}int", _CoreLoader.construct_int)
_CoreLoader.add_constructor(f"{_TAG}float", _CoreLoader.construct_float)


def parse_yaml(text: str) -> object:
    """Return the JSON value of the only document in `text`. Raises DocumentError."""
    try:
        _check_events(text)
        return yaml.load(text, Loader=_CoreLoader)  # a safe loader
    except yaml.YAMLError as error:
        raise DocumentError(f"not YAML: {error}") from error


def _check_events(text: str) -> None:
    depth = documents = 0
    for event in yaml.parse(text, Loader=_FastLoader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        documents += isinstance(event, yaml.DocumentStartEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if documents > 1:
            raise DocumentError(f"line {line}: there must be only one document")
        if depth > MAX_DEPTH:
            raise too_deep(line)
        if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            raise DocumentError(f"line {line}: anchors and aliases are not supported")
        if getattr(event, "tag", None) is not None:
            raise DocumentError(f"line {line}: tags are not supported")
