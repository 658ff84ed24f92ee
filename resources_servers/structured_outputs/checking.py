"""Check one answer against one schema. Runs in a worker, because documents and schema patterns are untrusted."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import orjson

from nemo_gym.failures import InputError
from nemo_gym.json_objects import object_in
from nemo_gym.verify.json_schema import fits_schema, schema_problems
from nemo_gym.verify.state import StateRules, differences
from resources_servers.structured_outputs.closing import closed
from resources_servers.structured_outputs.documents.documents import (
    DocumentFormat,
    embedded_document,
    parse_document,
    refuse_repeated_keys,
)
from resources_servers.structured_outputs.documents.leaf_types import Schema, typed_by_schema
from resources_servers.structured_outputs.documents.limits import DocumentError


class Extraction(StrEnum):
    """The place of the document in the answer."""

    STRICT = "strict"
    """The answer is the document, with nothing before or after it."""
    EMBEDDED = "embedded"
    """The last code fence of the format, or the text between `<|BEGIN_CODE|>` and `<|END_CODE|>`; else the whole
    answer."""


class DocumentProblem(NamedTuple):
    """The reason why an answer scores 0."""

    kind: str
    """`empty_response`, `no_document`, `parse_error`, `validation_error` or `content_error`."""
    message: str


class Task(NamedTuple):
    """The requirements for an answer."""

    schema_str: str
    document_format: DocumentFormat = DocumentFormat.JSON
    extraction: Extraction = Extraction.STRICT
    close_schema: bool = True
    expected: object = None
    """The expected value of the document; None when any value that fits the schema is right."""
    is_call: bool = False
    """True if the answer is the arguments of a function call."""
    payload_key: str | None = None
    """The argument that holds the document; None when all arguments are it."""


_LONGEST_MESSAGE = 500
_FORMATS_OF_TEXT = (DocumentFormat.XML, DocumentFormat.CSV)
_TOLERANCE = 1e-9


def find_problem(answer: str, task: Task) -> DocumentProblem | None:
    """Return the problem of `answer`, or None when it meets the task.

    Raises InputError when the schema is invalid: that is an error of the row.
    """
    schema = read_schema(task.schema_str, task.close_schema)
    if task.is_call:
        answer = document_in_arguments(answer, task.payload_key)
    if not answer.strip():
        return DocumentProblem("empty_response", "there is no answer")
    is_strict = task.extraction is Extraction.STRICT
    document = answer if is_strict else embedded_document(answer, task.document_format)
    if document is None:
        return DocumentProblem("no_document", f"there are code fences, but none of {task.document_format}")
    try:
        value = parse_document(document, task.document_format)
    except DocumentError as error:
        return DocumentProblem("parse_error", str(error)[:_LONGEST_MESSAGE])
    value = _typed(value, schema, task.document_format)
    problems = _schema_problems(value, schema, task.document_format)
    if problems:
        return DocumentProblem("validation_error", "; ".join(problems)[:_LONGEST_MESSAGE])
    if task.expected is None:
        return None
    wrong = differences(task.expected, value, StateRules(tolerance=_TOLERANCE))
    return DocumentProblem("content_error", "; ".join(map(str, wrong))[:_LONGEST_MESSAGE]) if wrong else None


def document_in_arguments(arguments: str, payload_key: str | None) -> str:
    """Return the document in the arguments of a call, as JSON; "" if they hold none."""
    parsed = object_in(arguments)
    if parsed is None:
        return ""
    try:
        refuse_repeated_keys(arguments)
    except DocumentError:
        return arguments  # the parser refuses them again
    if payload_key is None:
        return arguments
    return orjson.dumps(parsed[payload_key]).decode() if list(parsed) == [payload_key] else ""


def read_schema(schema_str: str, close_schema: bool) -> Schema:
    """Parse the schema of a row and close it if required. Raises InputError."""
    try:
        schema = orjson.loads(schema_str)
    except orjson.JSONDecodeError as error:
        raise _invalid(f"it is not JSON: {error}") from error
    if not isinstance(schema, Mapping):
        raise _invalid("it is not a JSON object")
    fits_schema(None, schema)  # raises for an invalid schema, before the code below relies on its structure
    return closed(schema) if close_schema else schema


def _typed(value: object, schema: Schema, document_format: DocumentFormat) -> object:
    """Convert the leaves of XML and CSV to the types of the schema, and drop an XML root that the schema lacks."""
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
    """Return whether the schema of a CSV document describes each row."""
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
