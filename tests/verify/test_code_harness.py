"""The harness dumps values of every type, and reads them again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nemo_gym.verify._code_harness import (
    LONGEST_MESSAGE,
    NotPlainData,
    compile_first,
    describe,
    dump,
    parse,
)


def test_an_object_is_dumped_as_its_class_name() -> None:
    assert dump([object()]) == '[{"opaque":"builtins.object"}]'


@pytest.mark.parametrize(
    ("value", "tagged"),
    [
        (7, 7),
        (-(1 << 63), {"int": "-0x8000000000000000"}),
        (float("nan"), {"float": "nan"}),
        ((1, [2]), {"tuple": [1, [2]]}),
        ({"a": 1}, {"dict": [["a", 1]]}),
        (bytearray(b"\x01"), {"bytes": "01"}),
        (1 - 2j, {"complex": [1.0, -2.0]}),
    ],
)
def test_types_that_json_lacks_are_tagged(value: Any, tagged: Any) -> None:
    assert json.loads(dump(value)) == tagged


def test_an_object_with_a_list_is_dumped_as_the_list() -> None:
    class Array:
        def tolist(self) -> list[int]:
            return [1, 2]

    assert dump(Array()) == "[1,2]"


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        dump(endless)


def test_an_exception_is_described_even_if_its_text_fails() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise SystemExit

    assert describe(ValueError("x" * 9_999)) == ["ValueError", "x" * LONGEST_MESSAGE]
    assert describe(Broken()) == ["Broken", ""]


def test_the_first_source_that_compiles_is_taken_or_the_first_error_raised() -> None:
    scope: dict[str, Any] = {}
    exec(compile_first(["x = (", "x = 2", "x = 3"]), scope)
    assert scope["x"] == 2
    with pytest.raises(SyntaxError, match="never closed"):
        compile_first(["x = (", "x = )"])


@pytest.mark.parametrize(
    "text",
    [
        '{"tuple":1}',
        '{"what":[]}',
        "{}",
        '{"set":[[1]]}',
        '{"dict":[[1]]}',
        '{"int":"xyz"}',
        "[" * 99_999,
        "",
    ],
)
def test_malformed_values_are_refused(text: str) -> None:
    with pytest.raises(NotPlainData, match="an unreadable value"):
        parse(text)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1 << 80,
        float("inf"),
        "\ud800 \u2028",
        [(1, 2), {3}, frozenset({4})],
        {(1, "a"): b"\xff", None: [1j]},
    ],
)
def test_values_come_back_as_they_were(value: Any) -> None:
    returned = parse(dump(value))
    assert returned == value
    assert type(returned) is type(value)


def test_a_number_with_its_own_equality_comes_back_as_a_plain_one() -> None:
    class Yes(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    assert type(parse(dump(Yes(3)))) is int


def test_an_object_of_some_class_is_named_and_not_plain_data() -> None:
    with pytest.raises(NotPlainData, match=r"builtins\.object"):
        parse(dump({"a": object()}))
