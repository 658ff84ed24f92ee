import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.mock_engine._plausible import plausible_arguments, plausible_value

EXAMPLES = Path(__file__).parents[3] / "shared" / "data" / "environment_examples"

STRINGS = st.fixed_dictionaries(
    {"type": st.just("string")},
    optional={"minLength": st.integers(0, 12), "maxLength": st.integers(12, 40)},
)
NUMBERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["integer", "number"])},
    optional={
        "minimum": st.integers(-50, 50),
        "maximum": st.integers(60, 90),
        "exclusiveMinimum": st.integers(-50, 50),
        "exclusiveMaximum": st.integers(60, 90),
        "multipleOf": st.integers(1, 7),
    },
)
LEAVES = st.one_of(
    STRINGS,
    NUMBERS,
    st.sampled_from(
        [{"type": "boolean"}, {"type": ["null", "string"]}, {"const": 7}, {"enum": ["red", "blue"]}, {}]
    ),
)


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    properties = st.dictionaries(st.sampled_from(["city", "unit", "days"]), inner)
    return st.one_of(
        properties.map(lambda named: {"type": "object", "properties": named, "required": list(named)}),
        properties.map(lambda named: {"type": "object", "properties": named}),
        st.builds(
            lambda items, least: {"type": "array", "items": items, "minItems": least},
            inner,
            st.integers(0, 3),
        ),
        st.lists(inner, min_size=1, max_size=3).map(lambda branches: {"anyOf": branches}),
    )


@given(st.recursive(LEAVES, nested, max_leaves=8))
def test_the_value_keeps_its_schema(schema: dict[str, Any]) -> None:
    jsonschema_rs.validate(schema, plausible_value(schema))


def test_the_arguments_keep_the_schemas_of_public_environments() -> None:
    if not EXAMPLES.is_dir():
        pytest.skip(f"no example tasks at {EXAMPLES}")
    rows = (
        json.loads(line)
        for file in sorted(EXAMPLES.glob("*.jsonl"))
        for line in file.read_text().splitlines()
    )
    tools = [tool for row in rows for tool in (row.get("responses_create_params") or {}).get("tools") or ()]
    schemas = [tool["parameters"] for tool in tools if tool.get("parameters")]
    assert len(schemas) > 100
    for schema in schemas:
        jsonschema_rs.validate(schema, json.loads(plausible_arguments(schema)))


def test_references_are_followed_and_recursive_schemas_end() -> None:
    node = {"type": "object", "properties": {"label": {"type": "string"}, "next": {"$ref": "#/$defs/node"}}}
    schema = {"$defs": {"node": node}, "allOf": [{"$ref": "#/$defs/node"}, {"required": ["label"]}]}
    assert plausible_value(schema) == {"label": "label"}


def test_a_schema_that_only_refers_to_itself_is_an_error() -> None:
    with pytest.raises(ValueError, match="refers to itself"):
        plausible_value({"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"})


def test_a_reference_to_nothing_is_an_error_that_names_it() -> None:
    with pytest.raises(ValueError, match="#/\\$defs/gone"):
        plausible_value({"$ref": "#/$defs/gone"})


def test_only_required_properties_are_given_where_the_schema_says_which() -> None:
    properties = {"city": {"type": "string"}, "unit": {"type": "string"}}
    assert plausible_value({"type": "object", "properties": properties, "required": ["city"]}) == {
        "city": "city"
    }
    assert plausible_value({"type": "object", "properties": properties}) == {"city": "city", "unit": "unit"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string", "format": "date"}, "2025-01-15"),
        ({"type": "string", "pattern": r"^\d{4}$"}, "1234"),
        ({"type": "integer", "default": 5}, 5),
        ({"type": "string", "examples": ["Oslo"]}, "Oslo"),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, True),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5}, 0.25),
    ],
)
def test_hints_in_the_schema_are_taken(schema: dict[str, Any], value: Any) -> None:
    assert plausible_value(schema) == value
