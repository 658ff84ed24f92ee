from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.json_objects import (
    MAX_DEPTH,
    describe_kind,
    dump_json,
    find_long_integers,
    finite_number,
    is_odd,
    measure_form,
    member,
    object_in,
    parse_json,
    parse_object,
    replace_surrogates,
)


@pytest.mark.parametrize("text", [b'{"a": [1]}', '{"a": [1]}'])
def test_an_object_is_read(text: bytes | str) -> None:
    assert object_in(text) == {"a": [1]}


@pytest.mark.parametrize("text", ["", b"\xff", "{", "[1]", "1", "null", "[" * 2000, "{}{}", '"\ud800"'])
def test_anything_else_is_none(text: bytes | str) -> None:
    assert object_in(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (rb'{"a": "\ud83d of \udc00"}', "\ufffd of \ufffd"),
        (rb'{"a": "\ud83d\uDE00"}', "\U0001f600"),
        (rb'{"a": "\\ud83d"}', r"\ud83d"),
        (rb'{"a": "\\\ud83d\ud83d\ude00"}', "\\\ufffd\U0001f600"),
    ],
)
def test_halves_of_characters_are_replaced(text: bytes, value: str) -> None:
    assert parse_object(text) == {"a": value}


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", rb'"\ud83d"', rb'{"a": \ud83d}', b"[" * 100_000])
def test_other_texts_are_no_objects(text: bytes) -> None:
    assert parse_object(text) is None


def test_a_member_is_found_in_objects_only() -> None:
    row = {"response": {"usage": {"output_tokens": 3}}}
    assert member(row, "response", "usage", "output_tokens") == 3
    assert member(row, "response", "usage") == {"output_tokens": 3}
    assert member(row, "response", "usage", "output_tokens", "text") is None
    assert member(row, "error", "message") is None
    assert member(["response"], "response") is None


def test_only_finite_numbers_are_numbers() -> None:
    assert finite_number(True) == 1.0
    assert [finite_number(value) for value in (math.nan, math.inf, -math.inf, "1", None, 10**400)] == [
        None
    ] * 6


def test_kinds_are_named_as_json_has_them() -> None:
    values: list[object] = [None, True, 1, 1.5, "", [], {}]
    names = ["null", "a boolean", "a number", "a number", "a string", "a list", "an object"]
    assert list(map(describe_kind, values)) == names


@pytest.mark.parametrize(
    ("text", "readable"),
    [("", ""), ("é😀", "é😀"), ("a\ud800b", "a\ufffdb"), ("\udc80\udfff", "\ufffd\ufffd")],
)
def test_surrogates_are_replaced(text: str, readable: str) -> None:
    assert replace_surrogates(text) == readable


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**40), 10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
)


@given(VALUES)
def test_json_with_integers_of_any_size_is_read_and_written_exactly(value: Any) -> None:
    assert parse_json(dump_json(value)) == value
    assert json.loads(dump_json(value)) == value
    assert parse_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("18446744073709551616", 1 << 64),
        ("-9223372036854775809", -(1 << 63) - 1),
        ("18446744073709551615", (1 << 64) - 1),
        (
            '{"a": [1e30, 1e300, 123456789012345678901234.5]}',
            {"a": [1e30, 1e300, 123456789012345678901234.5]},
        ),
        ('{"a": [1e30, 18446744073709551617]}', {"a": [1e30, (1 << 64) + 1]}),
        ("9" * 308, int("9" * 308)),
        ("[" + "9" * 309 + "]", ["9" * 309]),
        ('{"a": -' + "9" * 5000 + ', "b": "' + "8" * 400 + '"}', {"a": "-" + "9" * 5000, "b": "8" * 400}),
    ],
)
def test_long_numbers_are_read(text: str, value: Any) -> None:
    assert parse_json(text) == value == parse_json(text.encode())


@pytest.mark.parametrize(
    "text", ["1e400", "NaN", "[Infinity]", "9" * 400 + ".5", "-", "{", "\x00", '"\ud800"', ""]
)
def test_what_is_no_json_stays_none(text: str) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        parse_json(text)


def test_what_json_cannot_represent_stays_an_error() -> None:
    with pytest.raises(TypeError):
        dump_json({1 << 70: object(), "n": 1 << 70})
    with pytest.raises(TypeError):
        dump_json(object())


def test_long_integers_are_found_by_their_places() -> None:
    value = {"a": [1, {"b": 1 << 70}], "c": -(1 << 64), "d": (1 << 64) - 1, "e": float(1 << 70)}
    assert list(find_long_integers(value)) == ["a[1].b", "c"]


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (1, (0, False)),
        (1e30, (0, True)),
        ([], (1, False)),
        ({"a": [1, "x", None, True, 0.5]}, (2, False)),
        ({"a": [1, {"b": -1e20}], "c": []}, (3, True)),
    ],
)
def test_the_form_of_a_value(value: Any, form: tuple[int, bool]) -> None:
    assert measure_form(value) == form


@pytest.mark.parametrize("value", [{"a": [1, "18446744073709551616"[:18]]}, [{}] * 90, {"a": 1e30}])
def test_a_plain_text_is_not_odd(value: Any) -> None:
    assert not is_odd(orjson.dumps(value))


@pytest.mark.parametrize(
    "text", [b"[18446744073709551616]", b"[" * 191 + b"]" * 191, b'["%b"]' % (b"9" * 19)]
)
def test_a_text_that_may_be_too_deep_or_rounded_is_odd(text: bytes) -> None:
    assert is_odd(text)


@given(VALUES)
def test_a_text_that_is_not_odd_is_neither_deep_nor_rounded(value: Any) -> None:
    text = dump_json(value)
    is_plain = measure_form(value).depth <= MAX_DEPTH and not any(find_long_integers(value))
    assert is_odd(text) or is_plain
