"""Text in XML and CSV gets the type in the schema, or stays text if it can't be converted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_gym.verify.json_schema import fits_schema
from resources_servers.structured_outputs.documents.documents import DocumentFormat, parse_document
from resources_servers.structured_outputs.documents.leaf_types import typed_by_schema
from resources_servers.structured_outputs.documents.writing import write_document

STRING, INTEGER, BOOLEAN = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}


@pytest.mark.parametrize(
    ("value", "schema", "typed"),
    [
        ("5", INTEGER, 5),
        ("-5", {"type": "number"}, -5),
        ("1.5e3", {"type": "number"}, 1500.0),
        ("five", INTEGER, "five"),
        ("1_000", INTEGER, "1_000"),
        ("٥", INTEGER, "٥"),
        ("５", {"type": "number"}, "５"),
        ("1.٥", {"type": "number"}, "1.٥"),
        ("1e٥", {"type": "number"}, "1e٥"),
        ("01", INTEGER, "01"),
        ("-007", INTEGER, "-007"),
        ("00.5", {"type": "number"}, "00.5"),
        ("0", INTEGER, 0),
        ("-0.5e-2", {"type": "number"}, -0.005),
        ("5 ", INTEGER, "5 "),
        ("9" * 5000, INTEGER, "9" * 5000),
        ("NaN", {"type": "number"}, "NaN"),
        ("True", BOOLEAN, True),
        ("yes", BOOLEAN, "yes"),
        ("5", STRING, "5"),
        ("5", {}, "5"),
        ("5", True, "5"),
        ("", {"type": ["string", "null"]}, None),
        ("", STRING, ""),
        ("", {"type": "object"}, {}),
        ("", {"type": "array", "items": INTEGER}, []),
        ("5", {"type": "array", "items": INTEGER}, [5]),
        (["5", "6"], {"type": "array", "items": INTEGER}, [5, 6]),
        (["5", "6"], {"type": "array", "prefixItems": [INTEGER]}, [5, "6"]),
        ({"entry": ["5", "6"]}, {"type": "array", "items": INTEGER}, [5, 6]),
        ({"entry": "5"}, {"type": "array", "items": INTEGER}, [5]),
        ({"name": "5"}, {"type": "array", "items": {"properties": {"name": STRING}}}, [{"name": "5"}]),
        ({"entry": {"name": "5"}}, {"type": "array", "items": {"properties": {"name": INTEGER}}}, [{"name": 5}]),
        ({"a": "5", "b": "6"}, {"properties": {"a": INTEGER}}, {"a": 5, "b": "6"}),
        ({"a": "5"}, {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": INTEGER}}, {"a": 5}),
        ("5", {"anyOf": [INTEGER, BOOLEAN]}, 5),
        ("5", {"allOf": [{"$ref": "#"}]}, "5"),
        ("5", {"$ref": "#/$defs/missing"}, "5"),
    ],
)  # fmt: skip
def test_typed_by_schema(value: Any, schema: Any, typed: object) -> None:
    assert typed_by_schema(value, schema) == typed


THING = {
    "type": "object",
    "properties": {
        "title": STRING,
        "pages": INTEGER,
        "price": {"type": "number"},
        "in_print": BOOLEAN,
        "tags": {"type": "array", "items": STRING},
    },
}
CATALOG = {
    "type": "object",
    "properties": {"catalog": {"type": "object", "properties": {"books": {"type": "array", "items": THING}}}},
}
THINGS = st.lists(
    st.fixed_dictionaries(
        {
            "title": st.sampled_from(["tea", "12", "true", "a & b"]),
            "pages": st.integers(-999, 10**12),
            "price": st.integers(-99, 999).map(lambda cents: cents / 100),
            "in_print": st.booleans(),
            "tags": st.lists(st.sampled_from(["x", "y", "7"]), max_size=3),
        }
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=50)
@given(THINGS)
def test_xml_means_what_was_written(things: list[dict[str, Any]]) -> None:
    value = {"catalog": {"books": things}}
    typed = typed_by_schema(
        parse_document(write_document(value, DocumentFormat.XML), DocumentFormat.XML), CATALOG
    )
    assert typed == value
    assert fits_schema(typed, CATALOG)
