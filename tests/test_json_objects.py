from __future__ import annotations

import pytest

from nemo_gym.json_objects import member, object_in, replace_surrogates


@pytest.mark.parametrize("text", [b'{"a": [1]}', '{"a": [1]}'])
def test_an_object_is_read(text: bytes | str) -> None:
    assert object_in(text) == {"a": [1]}


@pytest.mark.parametrize("text", ["", b"\xff", "{", "[1]", "1", "null", "[" * 2000, "{}{}", '"\ud800"'])
def test_anything_else_is_none(text: bytes | str) -> None:
    assert object_in(text) is None


def test_a_member_is_found_in_objects_only() -> None:
    row = {"response": {"usage": {"output_tokens": 3}}}
    assert member(row, "response", "usage", "output_tokens") == 3
    assert member(row, "response", "usage") == {"output_tokens": 3}
    assert member(row, "response", "usage", "output_tokens", "text") is None
    assert member(row, "error", "message") is None
    assert member(["response"], "response") is None


@pytest.mark.parametrize(
    ("text", "readable"),
    [("", ""), ("é😀", "é😀"), ("a\ud800b", "a\ufffdb"), ("\udc80\udfff", "\ufffd\ufffd")],
)
def test_surrogates_are_replaced(text: str, readable: str) -> None:
    assert replace_surrogates(text) == readable
