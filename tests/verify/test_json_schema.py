from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import InputError
from nemo_gym.verify.json_schema import fits_schema, schema_problems

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "lines": {"type": "array", "items": {"type": "object", "required": ["sku"]}, "minItems": 1},
    },
    "required": ["id"],
    "additionalProperties": False,
}


def test_a_value_that_fits_has_no_problems() -> None:
    value = {"id": 1, "lines": [{"sku": "a"}]}
    assert schema_problems(value, ORDER) == []
    assert fits_schema(value, ORDER)


def test_every_problem_is_reported_with_its_path() -> None:
    problems = schema_problems({"id": "1", "lines": [{}], "extra": 0}, ORDER)
    assert not fits_schema({"id": "1"}, ORDER)
    assert sorted(problem.partition(":")[0] for problem in problems) == ["$", "$.id", "$.lines[0]"]
    assert any("'extra'" in problem for problem in problems)


def test_the_number_and_length_of_problems_are_limited() -> None:
    problems = schema_problems(["x" * 10_000] * 100, {"items": {"type": "integer"}})
    assert len(problems) == 50
    assert max(map(len, problems)) < 400


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        ("a\udfff", {"maxLength": 9}),
        ({"id": "\ud800"}, {"properties": {"id": {"pattern": "."}}}),
        ([["\udc00"]], {"items": {"items": {"type": "string", "pattern": "."}}}),
    ],
)
def test_a_text_that_is_not_unicode_does_not_fit(value: Any, schema: Any) -> None:
    assert schema_problems(value, schema) == ["$: a text is not valid Unicode"]
    assert not fits_schema(value, schema)


@pytest.mark.parametrize(
    ("schema", "fits"),
    [(True, True), (False, False), ({}, True), ({"const": 3.0}, True), ({"const": "3"}, False)],
)
def test_schemas_of_every_form(schema: Any, fits: bool) -> None:
    assert fits_schema(3, schema) is fits


@pytest.mark.parametrize(
    "schema",
    [{"type": "text"}, {"properties": 3}, {"$ref": "http://127.0.0.1:1/other.json"}, {"pattern": "("}],
)
def test_an_invalid_schema_is_an_error_of_the_task(schema: Any) -> None:
    for check in (schema_problems, fits_schema):
        with pytest.raises(InputError) as caught:
            check({}, schema)
        assert caught.value.failure.code == "invalid_schema"
