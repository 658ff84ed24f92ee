"""The JSON Schema of a row."""

from __future__ import annotations

from typing import Any

from nemo_gym.rows.fields import FIELDS, Form
from nemo_gym.rows.version import ROW_VERSION


def build_row_schema(form: Form) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the rows of one form that this gym writes. Other members are allowed."""
    members = [member for member in FIELDS if form in member.forms]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{form} row, version {ROW_VERSION}",
        "type": "object",
        "properties": {each.key: {**each.schema, "description": each.meaning} for each in members},
        "required": [each.key for each in members if form in each.required],
    }
