"""Fields of an engine's answer: absent and null are equal, and a wrong type is an error of the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nemo_gym.failures import EngineError
from nemo_gym.responses._answer_fields import read_object, read_objects, read_required_text, read_text


@pytest.mark.parametrize("given", [{}, {"key": None}])
@pytest.mark.parametrize(("read", "value"), [(read_text, None), (read_object, {}), (read_objects, [])])
def test_an_absent_field_has_a_default(read: Callable[..., Any], value: Any, given: dict[str, Any]) -> None:
    assert read(given, "key", "") == value


@pytest.mark.parametrize(
    ("read", "value"),
    [(read_text, ""), (read_required_text, "x"), (read_object, {"a": 1}), (read_objects, [{}, {"a": 1}])],
)
def test_a_field_of_the_right_type_is_unchanged(read: Callable[..., Any], value: Any) -> None:
    assert read({"key": value}, "key", "") == value


@pytest.mark.parametrize(
    ("read", "value", "told"),
    [
        (read_text, 5, "is 5, where a text belongs"),
        (read_required_text, None, "is missing"),
        (read_object, [], "is [], where an object belongs"),
        (read_objects, {}, "is {}, where a list of objects belongs"),
        (read_objects, [{}, 1], "is [{}, 1], where a list of objects belongs"),
    ],
)
def test_a_wrong_type_is_named_with_its_path(read: Callable[..., Any], value: Any, told: str) -> None:
    with pytest.raises(EngineError) as caught:
        read({"key": value}, "key", "choices[0].")
    failure = caught.value.failure
    assert (failure.code, failure.param) == ("malformed_answer", "choices[0].key")
    assert told in failure.message


def test_a_long_value_is_shortened() -> None:
    with pytest.raises(EngineError) as caught:
        read_text({"key": ["x" * 10_000]}, "key", "")
    assert len(caught.value.failure.message) < 300
