"""Base classes of API models: unknown fields are kept, null is absent, and other packages' models are read as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from nemo_gym.responses.wire import (
    JsonObjects,
    NullMeansDefault,
    Own,
    TaggedWireModel,
    TextConfig,
    WireModel,
    read_field,
)


class Foreign(BaseModel):
    """A model of another package."""

    model_config = {"extra": "allow"}

    schema_: dict[str, Any] = Field(alias="schema")
    unset: int = 5


class Part(TaggedWireModel):
    type: Literal["part"] = "part"
    note: str = ""


class Whole(WireModel):
    count: Annotated[int, NullMeansDefault] = 3
    parts: Annotated[list[Part], Own] = Field(default_factory=list)
    plain: JsonObjects = Field(default_factory=list)
    text: TextConfig = Field(default_factory=dict)


def test_unknown_fields_are_kept_and_null_is_the_default() -> None:
    whole = Whole.model_validate({"count": None, "unheard_of": [1]})
    assert (whole.count, whole.model_extra) == (3, {"unheard_of": [1]})


def test_models_of_other_packages_are_stored_as_json() -> None:
    foreign = Foreign.model_validate({"schema": {"a": 1}, "extra": 2})
    whole = Whole(plain=[foreign, {"b": 1}], text={"format": foreign})
    assert whole.plain == [{"schema": {"a": 1}, "extra": 2}, {"b": 1}]


def test_an_instance_of_ours_is_kept() -> None:
    part = Part(note="x")
    assert Whole(parts=[part]).parts[0] is part


def test_a_tag_is_dumped_even_if_it_was_left_to_its_default() -> None:
    assert Part().model_dump(exclude_unset=True) == {"type": "part"}


@pytest.mark.parametrize("key", ["schema", "schema_"])
def test_the_schema_of_a_text_format_has_its_json_name(key: str) -> None:
    whole = Whole(text={"format": {"type": "json_schema", key: {"a": 1}}, "verbosity": "low"})
    assert whole.text == {"format": {"type": "json_schema", "schema": {"a": 1}}, "verbosity": "low"}


def test_a_field_is_read_from_objects_and_models() -> None:
    assert read_field({"note": "x"}, "note") == read_field(Part(note="x"), "note") == "x"
    assert read_field({}, "note") is read_field(Part(), "nothing") is None
