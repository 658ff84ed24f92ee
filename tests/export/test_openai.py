from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.export.report import LeftOut, Loss
from tests.export.rows import TOOL, call, exported, output, row, text, thought

SHOTS = [
    {"role": "user", "content": "1?"},
    {"role": "assistant", "content": "one"},
    {"role": "user", "content": "2?"},
]


def test_answers_that_the_policy_did_not_write_have_no_weight(tmp_path: Path) -> None:
    (written,), report = exported(tmp_path, "openai", [row(prompt=SHOTS)])
    assert [message.get("weight") for message in written["messages"]] == [None, 0, None, None]
    assert not report.losses


def test_an_example_with_tools(tmp_path: Path) -> None:
    items = [thought("Hm."), call("Oslo"), output("rain"), text("It rains.")]
    (written,), report = exported(tmp_path, "openai", [row(items=items, tools=[TOOL])])
    assert written["tools"][0]["function"]["name"] == "get_weather"
    assert written["parallel_tool_calls"] is True
    assert written["messages"][2] == {"role": "tool", "content": "rain", "tool_call_id": "call00000"}
    assert report.losses == {Loss.REASONING: 1}


def test_images_of_the_user_are_kept(tmp_path: Path) -> None:
    image = {"type": "input_image", "image_url": "https://example.com/a.png"}
    (written,), _ = exported(tmp_path, "openai", [row(prompt=[{"role": "user", "content": [image]}])])
    assert written["messages"][0]["content"][0]["type"] == "image_url"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (row(tools=[{**TOOL, "name": "get weather"}]), LeftOut.ILLEGAL_FIELD),
        (row(tools=[{**TOOL, "name": f"t{n}"} for n in range(129)]), LeftOut.ILLEGAL_FIELD),
        (
            row(items=[call("Oslo"), {"type": "message", "role": "user", "content": "?"}, text("a")]),
            LeftOut.TURN_ORDER,
        ),
    ],
)
def test_rollouts_that_the_api_would_refuse_are_left_out(
    given: dict[str, Any], reason: LeftOut, tmp_path: Path
) -> None:
    _, report = exported(tmp_path, "openai", [given])
    assert report.left_out == {reason: 1}
