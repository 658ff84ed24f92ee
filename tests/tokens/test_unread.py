"""Leaving token ids unread changes nothing else of an answer."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.tokens import unread
from nemo_gym.tokens.unread import without_token_lists
from perf.hop import long_answer

NAMES = ("prompt_token_ids", "generation_token_ids", "generation_log_probs", "token_ids")


@pytest.fixture(autouse=True)
def _short_answers_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "_WORTH_IT", 0)


def emptied(value: Any) -> Any:
    """What is expected, from the parsed answer."""
    if isinstance(value, list):
        return [emptied(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {name: [] if name in NAMES and is_numbers(part) else emptied(part) for name, part in value.items()}


def is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(part) in (int, float) for part in value)


texts = st.text() | st.sampled_from(
    ['"token_ids":[1,2]', '\\"token_ids\\":[1]', "]", '"generation_log_probs": [', '"}],"token_ids":[7']
)
numbers = st.lists(st.integers(-(2**31), 2**31) | st.floats(allow_nan=False, allow_infinity=False))
values = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9) | texts | numbers,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(texts | st.sampled_from(NAMES), inner, max_size=5)
    ),
    max_leaves=12,
)


@given(values, st.booleans())
def test_lists_of_numbers_under_the_names_are_empty_and_the_rest_is_as_it_was(
    value: Any, pretty: bool
) -> None:
    body = orjson.dumps(value, option=orjson.OPT_INDENT_2 if pretty else 0)
    assert orjson.loads(without_token_lists(body)) == emptied(value)


def test_of_a_long_answer_the_text_is_left() -> None:
    body = long_answer()
    left = without_token_lists(body)
    assert len(left) < 0.2 * len(body)
    assert (
        orjson.loads(left)["choices"][0]["message"]["content"]
        == orjson.loads(body)["choices"][0]["message"]["content"]
    )


@pytest.mark.parametrize(
    "body", [b"", b'{"token_ids":', b'{"token_ids":[1,2', b'{"token_ids":[1],"token_ids":[[2]]}']
)
def test_what_is_no_whole_answer_is_left_to_the_parser(body: bytes) -> None:
    assert without_token_lists(body).startswith(body[:13])


def test_short_answers_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert without_token_lists(b'{"token_ids":[1,2]}') == b'{"token_ids":[1,2]}'
