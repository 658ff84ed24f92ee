from __future__ import annotations

import math

import pytest

from nemo_gym.json_objects import (
    describe_kind,
    finite_number,
    member,
    object_in,
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
