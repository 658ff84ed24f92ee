"""Ids of prompts stay text, and every other body is parsed as it is."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import orjson
import pytest

from nemo_gym.tokens.light_parsing import IdText, parse_lightly, read_ids

holders = itemgetter("output")


def body_of(*items: Any, **others: Any) -> bytes:
    return orjson.dumps({"output": [*items], **others})


def test_each_list_of_ids_is_its_text() -> None:
    body = body_of({"prompt_token_ids": [1, 23], "x": "]"}, {"y": 2}, {"prompt_token_ids": []})
    assert parse_lightly(body, holders) == {
        "output": [
            {"prompt_token_ids": IdText(b"1,23"), "x": "]"},
            {"y": 2},
            {"prompt_token_ids": IdText(b"")},
        ]
    }


@pytest.mark.parametrize(
    "body",
    [
        body_of({"a": 1}),
        body_of({"prompt_token_ids": None}, {"prompt_token_ids": 3}, {"prompt_token_ids": {"text": 0}}),
        body_of({"prompt_token_ids": [1]}, metadata={"prompt_token_ids": [2]}),
        body_of({"prompt_token_ids": ["a]b"]}),
        body_of({"prompt_token_ids": [[1], [2]]}),
        body_of({"text": '"prompt_token_ids":[1]'}),
        body_of({"prompt_token_ids": {"text": 0}}, {"prompt_token_ids": [1]}),
        body_of("no object", {"prompt_token_ids": [1]}),
        orjson.dumps({"response": {"prompt_token_ids": [1]}}),
        orjson.dumps([{"prompt_token_ids": [1]}]),
        b'{"output": [{"prompt_token_ids": [1, 2]}]}',
        b"7",
    ],
)
def test_other_bodies_are_parsed_whole(body: bytes) -> None:
    assert parse_lightly(body, holders) == orjson.loads(body)


@pytest.mark.parametrize(
    "body", [b"", b'{"output":[{"prompt_token_ids":[1', b'{"output":[{"prompt_token_ids":[1]}']
)
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(orjson.JSONDecodeError):
        parse_lightly(body, holders)


@pytest.mark.parametrize(
    ("text", "longer", "begins"),
    [(b"1,2", b"1,2,3", True), (b"1,2", b"1,2", True), (b"1,2", b"1,23", False), (b"1,2", b"1", False)],
)
def test_ids_begin_with_whole_ids(text: bytes, longer: bytes, *, begins: bool) -> None:
    assert IdText(text).begins(longer) is begins


def test_text_is_read_as_a_list() -> None:
    assert read_ids(IdText(b"1,2")) == read_ids([1, 2]) == [1, 2]
    assert read_ids(None) is None
    with pytest.raises(ValueError, match="unexpected"):
        read_ids(IdText(b"1,x"))
