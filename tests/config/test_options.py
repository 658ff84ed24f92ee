from __future__ import annotations

from typing import Any, ClassVar

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, RootModel, model_validator

from nemo_gym.config.options import option_faults
from nemo_gym.config_types import BaseRunServerInstanceConfig, ModelServerRef

PATH = ("env", "resources_servers", "weather")
AT = "env.resources_servers.weather"


class Model(BaseModel):
    """A model inside an author's config."""

    name: str
    room: int = 0


class Names(RootModel[list[str]]):
    """A value that is not a mapping."""


class Config(BaseRunServerInstanceConfig):
    known: int = 1
    judge: ModelServerRef | None = None
    models: list[Model] = Field(default_factory=list)
    by_name: dict[str, Model] = Field(default_factory=dict)
    names: Names = Names([])
    nothing: ClassVar[int] = 3


def faults(model: type[BaseModel] = Config, **block: Any) -> list[tuple[str, str | None]]:
    found = option_faults(model, {"entrypoint": "app.py", **block}, PATH, "127.0.0.1")
    return [(fault.message, fault.remedy) for fault in found]


def test_a_block_of_known_keys_has_no_faults() -> None:
    assert faults(known=3, domain="math", description="d", datasets=[], num_workers=2, names=["a"]) == []


def test_an_unknown_key_is_named_with_the_nearest_known_one() -> None:
    assert faults(knwon=3) == [(f"{AT}.knwon: weather has no option 'knwon'.", "Did you mean 'known'?")]
    assert faults(entrypiont="x.py") == [
        (f"{AT}.entrypiont: weather has no option 'entrypiont'.", "Did you mean 'entrypoint'?")
    ]


def test_a_key_that_resembles_none_is_named_with_all_options() -> None:
    assert faults(zzz=3)[0][1] == "Its options are by_name, judge, known, models, names, placement."


def test_a_server_cannot_be_given_another_name_than_its_own() -> None:
    assert faults(name="other")[0][0] == f"{AT}.name: weather has no option 'name'."


def test_a_class_variable_is_no_option() -> None:
    assert faults(nothing=4)[0][0] == f"{AT}.nothing: weather has no option 'nothing'."


def test_every_type_is_checked_and_all_faults_are_given_at_once() -> None:
    assert [message for message, _ in faults(known="x", judge={"type": "agents", "name": "j"}, knwon=1)] == [
        f"{AT}.knwon: weather has no option 'knwon'.",
        f"{AT}.known must be a whole number, not 'x'.",
        f"{AT}.judge.type must be 'responses_api_models', not 'agents'.",
    ]


def test_unknown_keys_inside_an_option_are_named_too() -> None:
    block: dict[str, Any] = {
        "models": [{"name": "a"}, {"name": "b", "rom": 2}],
        "by_name": {"c": {"name": "c", "rooms": 1}},
    }
    assert faults(**block) == [
        (f"{AT}.models[1].rom: weather has no option 'rom'.", "Did you mean 'room'?"),
        (f"{AT}.by_name.c.rooms: weather has no option 'rooms'.", "Did you mean 'room'?"),
    ]


def test_a_key_that_must_be_given_is_missing() -> None:
    class Strict(BaseRunServerInstanceConfig):
        needed: str

    assert faults(Strict) == [(f"{AT}.needed is required.", f"Write +{AT}.needed=<value>.")]


def test_aliases_are_keys_and_the_names_behind_them_are_not() -> None:
    class Aliased(BaseRunServerInstanceConfig):
        b: int = Field(1, alias="c")
        d: int = Field(1, validation_alias=AliasChoices("e", "f"))

    assert faults(Aliased, c=2, f=3) == []
    assert [message for message, _ in faults(Aliased, b=2, d=3)] == [
        f"{AT}.b: weather has no option 'b'.",
        f"{AT}.d: weather has no option 'd'.",
    ]


def test_a_class_that_forbids_other_keys_reports_them() -> None:
    class Strict(BaseRunServerInstanceConfig):
        model_config = ConfigDict(extra="forbid")
        mine: int = 1

    assert faults(Strict, mien=2) == [(f"There is no key '{AT}.mien'.", "Did you mean 'mine'?")]


class TakesAnything(BaseRunServerInstanceConfig):
    model_config = ConfigDict(extra="allow")


class SeesKeysFirst(BaseRunServerInstanceConfig):
    @model_validator(mode="before")
    @classmethod
    def rename(cls, data: Any) -> Any:
        return data


@pytest.mark.parametrize("model", [TakesAnything, SeesKeysFirst])
def test_a_class_that_may_take_other_keys_is_not_checked_for_them(model: type[BaseModel]) -> None:
    assert faults(model, whatever=1) == []


def test_keys_set_by_the_launcher_are_not_validated() -> None:
    assert faults(host="0.0.0.0", port="x", num_workers="y") == []


def test_a_class_may_require_the_number_of_workers_as_null() -> None:
    class Counted(BaseRunServerInstanceConfig):
        num_workers: int | None

    assert faults(Counted, num_workers=None) == []
    assert faults(Counted, num_workers=2) == []
    assert [message for message, _ in faults(Counted)] == [f"{AT}.num_workers is required."]
