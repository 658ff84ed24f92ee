from typing import Any

import pytest

from nemo_gym.responses.logprobs import (
    MISSING_LOGPROB,
    convert_logprobs_to_chat,
    convert_logprobs_to_text,
    has_missing_logprobs,
)


def entry(token: str, logprob: float | None = -0.5, **fields: Any) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": [], **fields}


def tokens_of(entries: list[dict[str, Any]], text: str) -> list[str] | None:
    found = convert_logprobs_to_text(entries, text)
    return None if found is None else [part["token"] for part in found]


def test_the_text_gets_its_own_tokens_only() -> None:
    entries = [entry(token) for token in ("<think>", "hm", "</think>", "ye", "s", "<|im_end|>")]
    assert tokens_of(entries, "yes") == ["ye", "s"]


def test_the_last_place_where_the_text_stands_is_meant() -> None:
    entries = [entry("yes", -1.0), entry("</think>"), entry("yes", -2.0)]
    found = convert_logprobs_to_text(entries, "yes")
    assert found is not None
    assert [part["logprob"] for part in found] == [-2.0]


def test_tokens_are_matched_by_their_bytes() -> None:
    smile = "🙂".encode()
    entries = [entry("\ufffd", bytes=list(smile[:2])), entry("\ufffd", bytes=list(smile[2:])), entry("!")]
    found = convert_logprobs_to_text(entries, "🙂!")
    assert found is not None
    assert bytes(byte for part in found for byte in part["bytes"]).decode() == "🙂!"


@pytest.mark.parametrize("text", ["", "no", "es"])
def test_text_that_no_whole_tokens_spell_has_none(text: str) -> None:
    assert convert_logprobs_to_text([entry("y"), entry("e"), entry("s!")], text) is None


def test_token_ids_in_place_of_tokens_spell_nothing() -> None:
    assert convert_logprobs_to_text([entry("token_id:123", bytes=None)], "yes") is None


def test_entries_have_the_form_of_the_responses_api() -> None:
    top = {"token": "no", "logprob": -3.0, "bytes": None}
    assert convert_logprobs_to_text([entry("yes", None, bytes=None, top_logprobs=[top])], "yes") == [
        {
            "token": "yes",
            "bytes": [121, 101, 115],
            "logprob": MISSING_LOGPROB,
            "top_logprobs": [{"token": "no", "bytes": [110, 111], "logprob": -3.0}],
        }
    ]


def test_missing_logprobs_are_noticed() -> None:
    assert has_missing_logprobs([entry("a"), entry("b", None)])
    assert has_missing_logprobs([entry("a", -9999.0)])
    assert not has_missing_logprobs([entry("a"), entry("b", -20.0)])


def test_conversion_back_fills_the_required_fields_of_chat() -> None:
    assert convert_logprobs_to_chat([{"token": "a", "logprob": -0.5}]) == [
        {"token": "a", "logprob": -0.5, "bytes": None, "top_logprobs": []}
    ]
