from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.failures import InputError
from nemo_gym.responses._content_parts import (
    convert_content_to_chat,
    convert_content_to_responses,
    convert_parts_to_chat,
    convert_parts_to_responses,
    present,
)
from nemo_gym.responses.problems import ConversionProblems

PAIRS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "input_text", "text": "x"}, {"type": "text", "text": "x"}),
    (
        {"type": "input_image", "image_url": "https://x", "detail": "high"},
        {"type": "image_url", "image_url": {"url": "https://x", "detail": "high"}},
    ),
    ({"type": "input_image", "image_url": "data:x"}, {"type": "image_url", "image_url": {"url": "data:x"}}),
    (
        {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": "QQ==", "format": "wav"}},
    ),
    (
        {"type": "input_file", "file_data": "data:x", "filename": "a.pdf"},
        {"type": "file", "file": {"file_data": "data:x", "filename": "a.pdf"}},
    ),
    ({"type": "input_file", "file_id": "file_1"}, {"type": "file", "file": {"file_id": "file_1"}}),
    (
        {"type": "input_video", "video_url": "https://x"},
        {"type": "video_url", "video_url": {"url": "https://x"}},
    ),
    ({"type": "refusal", "refusal": "no"}, {"type": "refusal", "refusal": "no"}),
]


@pytest.mark.parametrize(("responses_part", "chat_part"), PAIRS)
def test_each_part_has_its_counterpart(responses_part: dict[str, Any], chat_part: dict[str, Any]) -> None:
    problems = ConversionProblems()
    assert convert_parts_to_chat([responses_part], "content", problems) == [chat_part]
    assert convert_parts_to_responses([chat_part], "content", problems) == [responses_part]
    assert not problems


@pytest.mark.parametrize(("responses_part", "chat_part"), PAIRS)
def test_content_is_a_string_or_parts(responses_part: dict[str, Any], chat_part: dict[str, Any]) -> None:
    problems = ConversionProblems()
    assert (
        convert_content_to_chat("x", "content", problems)
        == convert_content_to_responses("x", "content", problems)
        == "x"
    )
    assert convert_content_to_chat([responses_part], "content", problems) == [chat_part]
    assert convert_content_to_responses([chat_part], "content", problems) == [responses_part]


def test_a_field_is_present_if_it_has_a_value() -> None:
    assert present({"a": 0, "b": None, "d": 1}, "b", "a", "c") == {"a": 0}


@given(st.lists(st.sampled_from([pair[0] for pair in PAIRS])))
def test_parts_keep_their_order_there_and_back(parts: list[dict[str, Any]]) -> None:
    problems = ConversionProblems()
    assert (
        convert_parts_to_responses(convert_parts_to_chat(parts, "content", problems), "content", problems)
        == parts
    )
    assert not problems


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"type": "input_image", "file_id": "file_1"}, "at[0].file_id"),
        ({"type": "input_image"}, "at[0].image_url"),
        ({"type": "input_file", "file_url": "https://x"}, "at[0].file_url"),
        ({"type": "input_text"}, "at[0].text"),
        ({"type": "input_text", "text": "x", "weight": 2}, "at[0].weight"),
        ({"type": "input_audio", "input_audio": "QQ=="}, "at[0].input_audio"),
        ({"type": "hologram"}, "at[0].type"),
        ({"text": "x"}, "at[0].type"),
        ("x", "at[0].type"),
    ],
)
def test_a_part_that_chat_lacks_is_named(part: Any, field: str) -> None:
    problems = ConversionProblems()
    convert_parts_to_chat([part], "at", problems)
    with pytest.raises(InputError) as caught:
        problems.raise_if_any("chat")
    assert caught.value.failure.param == field


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"type": "image_url", "image_url": "https://x"}, "at[0].image_url"),
        ({"type": "image_url", "image_url": {"url": "x", "size": 1}}, "at[0].image_url.size"),
        ({"type": "file", "file": "x"}, "at[0].file"),
        ({"type": "video_url", "video_url": "x"}, "at[0].video_url"),
        ({"type": "input_text", "text": "x"}, "at[0].type"),
    ],
)
def test_a_part_that_the_responses_api_lacks_is_named(part: Any, field: str) -> None:
    problems = ConversionProblems()
    convert_parts_to_responses([part], "at", problems)
    with pytest.raises(InputError) as caught:
        problems.raise_if_any("responses")
    assert caught.value.failure.param == field
