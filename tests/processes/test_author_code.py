"""The text of an exception, and the place in an author's code at which it was raised."""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel, ValidationError

from nemo_gym.processes.author_code import (
    describe_error,
    find_error_place,
    find_function_place,
    locate_function,
)

APP = """\
import json

def verify(text):
    return json.loads(text)
"""


def loaded(file: Path) -> ModuleType:
    file.parent.mkdir(parents=True)
    file.write_text(APP)
    spec = importlib.util.spec_from_file_location("author_code_sample", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_innermost_line_in_a_servers_folder_is_named(tmp_path: Path) -> None:
    app = loaded(tmp_path / "resources_servers" / "shop" / "app.py")
    with pytest.raises(ValueError) as raised:
        app.verify("{nope")
    assert find_error_place(raised.value) == "resources_servers/shop/app.py:4"


def test_other_code_is_no_place(tmp_path: Path) -> None:
    app = loaded(tmp_path / "elsewhere" / "app.py")
    with pytest.raises(ValueError) as raised:
        app.verify("{nope")
    assert find_error_place(raised.value) is None
    assert find_error_place(ValueError("never raised")) is None


class Called:
    def __call__(self) -> None:
        return None


def test_a_function_has_a_place_whatever_wraps_it(tmp_path: Path) -> None:
    verify = loaded(tmp_path / "resources_servers" / "shop" / "app.py").verify

    @functools.wraps(verify)
    def wrapper(text: str) -> object:
        return verify(text)

    for function in (
        verify,
        wrapper,
        functools.partial(wrapper, "{}"),
        functools.partial(functools.partial(verify)),
    ):
        assert find_function_place(function) == "resources_servers/shop/app.py:3"
        assert locate_function(function) == ("resources_servers/shop/app.py", 3)


def test_functions_elsewhere_have_a_location_and_no_place() -> None:
    assert find_function_place(Called()) is None
    file, line = locate_function(Called())
    assert file.endswith("test_author_code.py")
    assert line is not None
    assert find_function_place(len) is None
    assert locate_function(len)[1] is None


class Scored(BaseModel):
    reward: float
    steps: list[int]


def test_a_refusal_of_pydantic_is_one_line_without_a_link() -> None:
    with pytest.raises(ValidationError) as caught:
        Scored.model_validate({"reward": "much", "steps": [1, "x" * 200]})
    described = describe_error(caught.value)
    assert described.startswith(
        "ValidationError: Scored refuses reward: Input should be a valid number, unable to parse string as a number, "
        "not 'much'; steps.1: Input should be a valid integer"
    )
    assert "\n" not in described
    assert "errors.pydantic.dev" not in described
    assert len(described) < 400
    with pytest.raises(ValidationError) as missing:
        Scored.model_validate({"reward": 1})
    assert describe_error(missing.value) == "ValidationError: Scored refuses steps: Field required"


def test_other_exceptions_are_their_type_and_message() -> None:
    assert describe_error(KeyError("x")) == "KeyError: 'x'"
    assert describe_error(ValueError()) == "ValueError: "
