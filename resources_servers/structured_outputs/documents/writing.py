"""Write JSON values as documents, for task prompts and for right answers in tests."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

import yaml

from resources_servers.structured_outputs.documents.documents import DocumentFormat

ENTRY = "entry"
"""The name of the XML element of an array member."""


def write_document(value: Any, document_format: DocumentFormat) -> str:
    """Write `value` as a document that parses to the same value, given the schema's types for XML and CSV.

    XML requires an object with one member, the root; TOML an object without nulls; CSV an array of flat objects.
    """
    return _WRITERS[document_format](value)


def _write_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def _write_yaml(value: Any) -> str:
    text: str = yaml.safe_dump(value, allow_unicode=True, sort_keys=False)
    return text


def _write_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _scalar(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _write_xml(value: Mapping[str, Any]) -> str:
    ((root, content),) = value.items()
    return "\n".join(_xml_lines(root, content, 0)) + "\n"


def _xml_lines(name: str, value: Any, depth: int) -> Iterator[str]:
    indent = "  " * depth
    if not isinstance(value, Mapping | list):
        yield f"{indent}<{name}>{escape(_scalar(value))}</{name}>"
        return
    members = value.items() if isinstance(value, Mapping) else ((ENTRY, member) for member in value)
    yield f"{indent}<{name}>"
    for key, member in members:
        yield from _xml_lines(key, member, depth + 1)
    yield f"{indent}</{name}>"


def _write_toml(value: Mapping[str, Any]) -> str:
    return "\n".join(_toml_lines(value, ())) + "\n"


def _toml_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table, its own values first, because lines after a header belong to that header's table."""
    inner = {
        name: member for name, member in table.items() if _is_table(member) or _is_array_of_tables(member)
    }
    for name, member in table.items():
        if name not in inner:
            yield f"{name} = {json.dumps(member, ensure_ascii=False)}"
    for name, member in inner.items():
        header = ".".join((*path, name))
        for entry in member if isinstance(member, list) else [member]:
            yield f"[[{header}]]" if isinstance(member, list) else f"[{header}]"
            yield from _toml_lines(entry, (*path, name))


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_array_of_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_table, value))


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, bool) else str(value)


_WRITERS: Mapping[DocumentFormat, Callable[[Any], str]] = {
    DocumentFormat.JSON: _write_json,
    DocumentFormat.YAML: _write_yaml,
    DocumentFormat.XML: _write_xml,
    DocumentFormat.TOML: _write_toml,
    DocumentFormat.CSV: _write_csv,
}
