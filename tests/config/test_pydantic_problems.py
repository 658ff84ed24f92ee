"""Errors of pydantic, as faults with the path of the value and the nearest known key."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from nemo_gym.config.problems import Location, Problem, Problems
from nemo_gym.config.pydantic_problems import Fault, find_faults, list_keys, validate
from nemo_gym.config.tree import DictTree


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int | float = 1
    colour: Literal["red", "green"] = "red"


class Block(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = ""
    inner: Inner = Inner()
    many: list[Inner] = []
    one_or_many: Inner | list[Inner] = []
    required: int = Field(alias="must")
    hf_token: int | None = None
    kind: Literal["a", "b"] | Literal["b", "c"] = "a"
    delay: float = 0

    @field_validator("delay", mode="before")
    @classmethod
    def _read_delay(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError(f"{value!r} is not a number or LOW:HIGH")
        return value

    @model_validator(mode="after")
    def _check_delay(self) -> Block:
        if self.delay < 0:
            raise ValueError("time does not run backwards")
        return self


def faults(**data: Any) -> list[Fault]:
    with pytest.raises(ValidationError) as caught:
        Block.model_validate(data)
    return list(find_faults(caught.value, Block, data, ("env",)))


def only(**data: Any) -> Fault:
    (fault,) = faults(**{"must": 1, **data})
    return fault


def test_a_missing_key_is_named_as_a_user_writes_it() -> None:
    (fault,) = faults()
    assert fault == Fault(("env", "must"), "env.must is required.", "Write +env.must=<value>.", True)


def test_an_unknown_key_has_the_nearest_one_beside_it() -> None:
    assert only(inner={"sizes": 1}) == Fault(
        ("env", "inner", "sizes"), "There is no key 'env.inner.sizes'.", "Did you mean 'size'?"
    )


def test_a_union_is_one_fault_at_the_value() -> None:
    fault = only(inner={"size": "big"})
    assert fault.path == ("env", "inner", "size")
    assert fault.message.startswith("env.inner.size must be a whole number")
    assert fault.message.endswith(", not 'big'.")


@pytest.mark.parametrize(
    ("value", "path"), [({"sizes": 1}, ("sizes",)), ([{"sizes": 1}], (0, "sizes")), (7, ())]
)
def test_a_union_of_a_model_and_a_list_of_models_is_one_fault(
    value: Any, path: tuple[str | int, ...]
) -> None:
    assert only(one_or_many=value).path == ("env", "one_or_many", *path)


def test_a_wrong_word_has_the_nearest_allowed_one() -> None:
    fault = only(many=[{}, {"colour": "gren"}])
    assert (fault.path, fault.remedy) == (("env", "many", 1, "colour"), "Did you mean 'green'?")


def test_a_number_in_place_of_text_can_be_quoted() -> None:
    assert only(name=5).remedy == "Quote it to make it text: '\"5\"'."


def test_a_secret_is_not_shown() -> None:
    assert "canary" not in only(hf_token="canary").message


def test_keys_are_aliases_where_there_are_any() -> None:
    assert list_keys(Block)["must"] == "required"
    assert "required" not in list_keys(Block)


def test_the_values_of_several_choices_are_one_list() -> None:
    fault = only(kind="bb")
    assert fault.message == "env.kind must be 'a', 'b' or 'c', not 'bb'."


def test_a_value_that_the_message_names_is_not_named_again() -> None:
    assert only(delay="slow").message == "env.delay: 'slow' is not a number or LOW:HIGH."


def test_a_fault_of_the_whole_command_has_neither_key_nor_place() -> None:
    problems = Problems()
    root = DictTree({}, Location("configuration"))
    assert validate(Block, {"must": 1, "delay": -1}, root, problems) is None
    assert problems.found == [Problem(None, "time does not run backwards.")]
