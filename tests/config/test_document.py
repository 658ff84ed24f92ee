from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from nemo_gym import PARENT_DIR
from nemo_gym.config.document import describe_default, describe_type, update_tables


def test_the_table_of_keys_in_the_documentation_is_the_one_that_the_code_makes() -> None:
    text = (PARENT_DIR / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert update_tables(text) == text, "run: python -m nemo_gym.config.document docs/configuration.md"


class Sample(BaseModel):
    required: int
    optional: str | None = None
    switch: bool = False
    listed: list[str] = Field(default_factory=list)
    number: int = 3


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (int, "whole number"),
        (str | None, "text"),
        (str | list[str] | None, "text or list of text"),
        (dict[str, int], "mapping"),
        (Sample, "mapping"),
        (bool, "true or false"),
        (Annotated[int, Field(ge=1)] | dict[str, int], "whole number or mapping"),
    ],
)
def test_types_are_described_as_a_user_would_say_them(annotation: object, text: str) -> None:
    assert describe_type(annotation) == text


def test_defaults_are_described() -> None:
    assert [describe_default(field) for field in Sample.model_fields.values()] == [
        "required",
        "optional",
        "default false",
        "optional",
        "default 3",
    ]
