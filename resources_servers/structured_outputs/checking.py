"""One answer against one schema. Runs in a worker: the document is a model's, the schema and its patterns a row's."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import orjson

from nemo_gym.failures import InputError
from nemo_gym.verify.json_schema import fits_schema, schema_problems
from nemo_gym.verify.state import StateRules, differences
from resources_servers.structured_outputs.closing import closed
from resources_servers.structured_outputs.documents.documents import (
    DocumentFormat,
    embedded_document,
    parse_document,
)
from resources_servers.structured_outputs.documents.leaf_types import Schema, typed_by_schema
from resources_servers.structured_outputs.documents.limits import DocumentError


class Extraction(StrEnum):
    """Where in the answer the document is."""

    STRICT = "strict"
    """The answer is the document, with nothing before or after it."""
    EMBEDDED = "embedded"
    """In the last code fence of the format, or between `<|BEGIN_CODE|>` and `<|END_CODE|>`; else all of the answer."""


class Problem(NamedTuple):
    """Why an answer is worth nothing."""

    kind: str
    """`empty_response`, `no_document`, `parse_error`, `validation_error` or `content_error`."""
    message: str


class Task(NamedTuple):
    """What an answer must be."""

    schema_str: str
    document_format: DocumentFormat = DocumentFormat.JSON
    extraction: Extraction = Extraction.STRICT
    close_schema: bool = True
    expected: object = None
    """The document's value, where its content counts too."""


_LONGEST_MESSAGE = 500
_FORMATS_OF_TEXT = (DocumentFormat.XML, DocumentFormat.CSV)
_TOLERANCE = 1e-9


def find_problem(answer: str, task: Task) -> Problem | None:
    """What is wrong with `answer`; None where it is the document that the task asks for.

    Raises InputError where the schema is none: that is the row's fault.
    """
    schema = read_schema(task.schema_str, task.close_schema)
    if not answer.strip():
        return Problem("empty_response", "there is no answer")
    is_strict = task.extraction is Extraction.STRICT
    document = answer if is_strict else embedded_document(answer, task.document_format)
    if document is None:
        return Problem("no_document", f"there are code fences, but none of {task.document_format}")
    try:
        value = parse_document(document, task.document_format)
    except DocumentError as error:
        return Problem("parse_error", str(error)[:_LONGEST_MESSAGE])
    value = _typed(value, schema, task.document_format)
    problems = _schema_problems(value, schema, task.document_format)
    if problems:
        return Problem("validation_error", "; ".join(problems)[:_LONGEST_MESSAGE])
    if task.expected is None:
        return None
    wrong = differences(task.expected, value, StateRules(tolerance=_TOLERANCE))
    return Problem("content_error", "; ".join(map(str, wrong))[:_LONGEST_MESSAGE]) if wrong else None


def read_schema(schema_str: str, close_schema: bool) -> Schema:
    """The schema of a row, closed if wanted. Raises InputError."""
    try:
        schema = orjson.loads(schema_str)
    except orjson.JSONDecodeError as error:
        raise _invalid(f"it is not JSON: {error}") from error
    if not isinstance(schema, Mapping):
        raise _invalid("it is no JSON object")
    fits_schema(None, schema)  # raises where it is no schema, before it is taken apart below
    return closed(schema) if close_schema else schema


def _typed(value: object, schema: Schema, document_format: DocumentFormat) -> object:
    """The document's value as the schema means it: leaves of text typed, XML without a root that it doesn't name."""
    if document_format is DocumentFormat.XML and isinstance(value, dict):
        ((root, content),) = value.items()
        value = value if isinstance(schema, Mapping) and root in schema.get("properties", {}) else content
    if isinstance(value, list) and _describes_a_row(schema, document_format):
        return [typed_by_schema(row, schema) for row in value]
    return typed_by_schema(value, schema) if document_format in _FORMATS_OF_TEXT else value


def _schema_problems(value: object, schema: Schema, document_format: DocumentFormat) -> list[str]:
    if not _describes_a_row(schema, document_format):
        return schema_problems(value, schema)
    if not isinstance(value, list) or not value:
        return ["there are no rows"]
    return [
        f"row {number}: {problem}"
        for number, row in enumerate(value, start=1)
        for problem in schema_problems(row, schema)
    ]


def _describes_a_row(schema: Schema, document_format: DocumentFormat) -> bool:
    """Whether the schema of a CSV document is that of its rows."""
    if document_format is not DocumentFormat.CSV or not isinstance(schema, Mapping):
        return False
    return schema.get("type") == "object" or ("type" not in schema and "properties" in schema)


def _invalid(message: str) -> InputError:
    return InputError(
        f"The task row's schema cannot be used: {message}.",
        code="invalid_schema",
        param="schema_str",
        remedy="Correct it in the dataset.",
    )
