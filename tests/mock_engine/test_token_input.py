"""The token routes of the mock engine."""

from __future__ import annotations

from typing import Any

from nemo_gym.mock_engine._template import MarkTemplate, read_prompt


def test_prompts_of_the_stub_are_read_back() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    call = {"function": {"name": "f", "arguments": '{"a":1}'}}
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi\nthere"},
        {"role": "assistant", "content": "x", "reasoning": "hm", "tool_calls": [call]},
        {"role": "tool", "content": "3"},
    ]
    assert read_prompt(MarkTemplate().prompt(messages, [tool])) == (messages, [tool])
    assert read_prompt(MarkTemplate().prompt(messages[1:2], [tool])) == (messages[1:2], [tool])
