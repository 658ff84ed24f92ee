from __future__ import annotations

import pytest

from nemo_gym.json_objects import object_in


@pytest.mark.parametrize("text", [b'{"a": [1]}', '{"a": [1]}'])
def test_an_object_is_read(text: bytes | str) -> None:
    assert object_in(text) == {"a": [1]}


@pytest.mark.parametrize("text", ["", b"\xff", "{", "[1]", "1", "null", "[" * 2000, "{}{}", '"\ud800"'])
def test_anything_else_is_none(text: bytes | str) -> None:
    assert object_in(text) is None
