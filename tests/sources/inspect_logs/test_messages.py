"""Steps become messages, and messages steps; other contents are counted."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.sources.inspect_logs.media import InlineMedia
from nemo_gym.sources.inspect_logs.messages import StepReader, split_given, write_messages

IMAGE = {"type": "image", "source": {"media_type": "image/png", "path": "data:image/png;base64,aGk="}}
AUDIO = {"type": "audio", "source": {"media_type": "audio/mpeg", "path": "data:audio/mpeg;base64,aGk="}}
CALLS = [
    {"tool_call_id": "a", "function_name": "look", "arguments": {"at": "it"}},
    {"tool_call_id": "b", "function_name": "wait", "arguments": {}},
]
RESULTS = [{"source_call_id": "b", "content": "waited"}, {"source_call_id": "a", "content": [IMAGE]}]
STEPS: list[dict[str, Any]] = [
    {"source": "system", "message": "Be short."},
    {"source": "user", "message": [{"type": "text", "text": "Look"}, IMAGE, AUDIO]},
    {"source": "agent", "message": "Before", "is_copied_context": True},
    {"source": "agent", "message": "", "reasoning_content": "Hm", "tool_calls": CALLS}
    | {"observation": {"results": RESULTS}},
    {"source": "agent", "message": "Done", "reasoning_content": "I saw it"},
    {"source": "system", "message": "", "observation": {"results": [{"content": "of no call"}]}},
]


def test_steps_are_the_same_after_a_log() -> None:
    steps = [{"step_id": number, **step} for number, step in enumerate(STEPS, 1)]
    messages = [message for step in steps for message in write_messages(step)]
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "assistant", "tool", "tool", "assistant", "tool")
    ]
    reader = StepReader(InlineMedia())
    assert reader.read(messages) == steps
    assert not reader.lost
    assert split_given(steps) == 3


def test_a_tools_error_is_what_the_policy_read() -> None:
    call = {"id": "a", "function": "look", "arguments": {}, "parse_error": "no JSON", "type": "function"}
    failed = {
        "role": "tool",
        "tool_call_id": "a",
        "content": "",
        "error": {"type": "timeout", "message": "late"},
    }
    reader = StepReader(InlineMedia())
    (step,) = reader.read([{"role": "assistant", "content": "", "tool_calls": [call]}, failed])
    assert step["observation"]["results"] == [{"source_call_id": "a", "content": "late"}]
    assert reader.lost == {"tool_calls.parse_error": 1}


@pytest.mark.parametrize(
    ("part", "lost"),
    [
        ({"type": "document", "document": "a.pdf"}, "content:document"),
        ({"type": "image", "image": "attachment://gone"}, "content:image"),
        ({"type": "audio", "audio": "a.wav", "format": "wav"}, "content:audio"),
        ({"type": "reasoning", "reasoning": "Hm", "signature": "x"}, "reasoning.signature"),
    ],
)
def test_what_a_step_has_no_place_for_is_counted(part: dict[str, Any], lost: str) -> None:
    reader = StepReader(InlineMedia())
    reader.read([{"role": "assistant", "content": [part], "metadata": {"a": 1}}])
    assert reader.lost == {lost: 1, "messages.metadata": 1}
