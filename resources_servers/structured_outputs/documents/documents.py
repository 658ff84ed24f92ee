"""Parse documents in JSON, YAML, XML, TOML and CSV to plain JSON values.

    json   without NaN, infinity and repeated keys
    yaml   see `yaml_documents`; dates stay text
    toml   dates and times become ISO 8601 text
    xml    see `xml_documents`; leaves are text
    csv    an array of objects by the header's names; values are text, without the white space around unquoted ones

`leaf_types` gives the leaves of XML and CSV the types that a schema names.
"""

from __future__ import annotations

import csv
import json
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from enum import StrEnum

import orjson

from nemo_gym.verify.code_blocks import code_blocks
from resources_servers.structured_outputs.documents.limits import (
    MAX_CHARACTERS,
    MAX_DEPTH,
    DocumentError,
    too_deep,
)
from resources_servers.structured_outputs.documents.xml_documents import parse_xml
from resources_servers.structured_outputs.documents.yaml_documents import parse_yaml


class DocumentFormat(StrEnum):
    JSON = "json"
    YAML = "yaml"
    XML = "xml"
    TOML = "toml"
    CSV = "csv"


def parse_document(text: str, document_format: DocumentFormat) -> object:
    """Return the JSON value of `text`. Raises DocumentError."""
    if len(text) > MAX_CHARACTERS:
        raise DocumentError(f"the document has {len(text)} characters; at most {MAX_CHARACTERS} are read")
    if not text.strip():
        raise DocumentError("the document is empty")
    try:
        return _as_json(_PARSERS[document_format](text), 0)
    except DocumentError:
        raise
    except (ValueError, csv.Error) as error:
        raise DocumentError(f"not {document_format.upper()}: {error}") from error
    except RecursionError as error:
        raise too_deep() from error


_LANGUAGES: Mapping[DocumentFormat, tuple[str, ...]] = {
    DocumentFormat.YAML: ("yaml", "yml"),
    DocumentFormat.CSV: ("csv", "tsv"),
}
_CODE_MARKS = ("<|BEGIN_CODE|>", "<|END_CODE|>")


def embedded_document(text: str, document_format: DocumentFormat) -> str | None:
    """Return the last marked document in an answer, or else the whole text.

    Marks are a code fence of the format or without a language, and `<|BEGIN_CODE|>…<|END_CODE|>`. Returns None when
    all fences are of other languages.
    """
    before_end, _, _ = text.rpartition(_CODE_MARKS[1])
    _, begin, marked = before_end.rpartition(_CODE_MARKS[0])
    if begin:
        return marked
    blocks = code_blocks(text)
    languages = (*_LANGUAGES.get(document_format, (document_format.value,)), "")
    fitting = [block.text for block in blocks if block.language in languages]
    if fitting:
        return fitting[-1]
    return None if blocks else text


def _as_json(value: object, depth: int) -> object:
    """Return `value` with dates as text. Raises DocumentError for non-JSON values and for too deep nesting."""
    if depth >= MAX_DEPTH and isinstance(value, dict | list):
        raise too_deep()
    if isinstance(value, dict):
        return {name: _as_json(member, depth + 1) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_json(member, depth + 1) for member in value]
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        raise DocumentError(f"{value} is not a JSON number")
    return value


def _parse_json(text: str) -> object:
    value: object = orjson.loads(text)
    refuse_repeated_keys(text)
    return value


def refuse_repeated_keys(text: str) -> None:
    """Raise DocumentError if an object in a JSON text has a key twice: parsers disagree on its value."""
    json.loads(text, object_pairs_hook=_refuse_repeated)


def _refuse_repeated(pairs: list[tuple[str, object]]) -> None:
    names = set()
    for name, _ in pairs:
        if name in names:
            raise DocumentError(f"the key {name!r} is repeated")
        names.add(name)


_TOML_TEXTS = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"""|\Z)|"(?:[^"\\\n]|\\.)*+"?' r"|'''.*?(?:'''|\Z)|'[^'\n]*+'?|#[^\n]*+",
    re.DOTALL,
)
"""Texts and comments. What is not closed reaches to the end, so that the time is linear."""
_DOTTED_KEY = re.compile(r"[\w\"-]++(?:[ \t]*+\.[ \t]*+[\w\"-]++)*+", re.ASCII)


def _parse_toml(text: str) -> object:
    # The library's time grows with the square of the parts of a dotted key, each of which is a level of nesting.
    keys = _DOTTED_KEY.finditer(_TOML_TEXTS.sub('"', text))
    if any(key.group().count(".") >= MAX_DEPTH for key in keys):
        raise too_deep()
    return tomllib.loads(text)


_QUOTED = "\ue000"
"""A mark at the beginning of quoted fields, which the library tells nobody about."""
_CSV_FIELD = re.compile(r'"((?:[^"]|"")*+)"|[^",\r\n][^,\r\n]*+')


def _parse_csv(text: str) -> list[object]:
    marked = _CSV_FIELD.sub(
        lambda field: field[0] if field[1] is None else f'"{_QUOTED}{field[1]}"', text.strip()
    )
    lines = csv.reader(marked.splitlines(keepends=True), strict=True)
    rows = [[_trim_field(field) for field in row] for row in lines if row]
    header = rows[0]
    if len(set(header)) < len(header):
        raise DocumentError("not CSV: two columns have the same name")
    for number, row in enumerate(rows[1:], start=1):
        if len(row) != len(header):
            raise DocumentError(f"not CSV: row {number} has {len(row)} fields, the header {len(header)}")
    return [dict(zip(header, row, strict=True)) for row in rows[1:]]


def _trim_field(field: str) -> str:
    return field[1:] if field.startswith(_QUOTED) else field.strip()


_PARSERS: Mapping[DocumentFormat, Callable[[str], object]] = {
    DocumentFormat.JSON: _parse_json,
    DocumentFormat.YAML: parse_yaml,
    DocumentFormat.XML: parse_xml,
    DocumentFormat.TOML: _parse_toml,
    DocumentFormat.CSV: _parse_csv,
}
