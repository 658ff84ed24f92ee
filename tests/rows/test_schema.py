"""The JSON Schema of a row; `test_fields.py` holds rows of every form against it."""

from __future__ import annotations

from nemo_gym.rows import keys
from nemo_gym.rows.fields import FIELDS, Form
from nemo_gym.rows.schema import build_row_schema
from nemo_gym.rows.version import ROW_VERSION


def test_a_schema_has_the_members_of_its_form_and_requires_those_that_it_must_have() -> None:
    for form in Form:
        schema = build_row_schema(form)
        assert set(schema["properties"]) == {field.key for field in FIELDS if form in field.forms}
        assert set(schema["required"]) == {field.key for field in FIELDS if form in field.required}
        assert ROW_VERSION in schema["title"]
    assert keys.REWARD_KEY in build_row_schema(Form.SCORED)["required"]
