from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.export.report import LeftOut, Loss
from tests.export.rows import TOOL, call, exported, output, row, text, thought

USER = {"type": "message", "role": "user", "content": "and?"}


def test_turns_are_named_as_llama_factory_names_them(tmp_path: Path) -> None:
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]
    items = [call("Oslo"), output("rain"), thought("So."), text("It rains.")]
    (written,), report = exported(tmp_path, "sharegpt", [row(items=items, prompt=prompt, tools=[TOOL])])
    assert written["conversations"] == [
        {"from": "system", "value": "Be brief."},
        {"from": "human", "value": "Weather?"},
        {"from": "function_call", "value": '{"name":"get_weather","arguments":{"city":"Oslo"}}'},
        {"from": "observation", "value": "rain"},
        {"from": "gpt", "value": "<think>So.</think>It rains."},
    ]
    assert orjson.loads(written["tools"])[0]["name"] == "get_weather"
    assert not report.losses


def test_parallel_calls_and_text_beside_them_are_losses(tmp_path: Path) -> None:
    items = [
        text("I look:"),
        call("Oslo", "a"),
        call("Bergen", "b"),
        output("1", "a"),
        output("2", "b"),
        text("ok"),
    ]
    (written,), report = exported(tmp_path, "sharegpt", [row(items=items)])
    assert [turn["from"] for turn in written["conversations"]] == [
        "human",
        "function_call",
        "observation",
        "gpt",
    ]
    assert len(orjson.loads(written["conversations"][1]["value"])) == 2
    assert written["conversations"][2]["value"] == '["1","2"]'
    assert report.losses == {Loss.TEXT_BESIDE_CALLS: 1, Loss.JOINED_OUTPUTS: 1}


@pytest.mark.parametrize(
    "prompt",
    [
        [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
        [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}],
    ],
)
def test_turns_that_do_not_alternate_are_left_out(prompt: list[dict[str, str]], tmp_path: Path) -> None:
    _, report = exported(tmp_path, "sharegpt", [row(prompt=prompt)])
    assert report.left_out == {LeftOut.TURN_ORDER: 1}


@pytest.mark.parametrize("format_name", ["sharegpt", "sft", "openai"])
def test_long_integers_in_arguments_are_kept(format_name: str, tmp_path: Path) -> None:
    long = call("Oslo") | {"arguments": '{"city": 123456789012345678901234567890}'}
    exported(tmp_path, format_name, [row(items=[long, output("rain"), text("ok")])])
    assert any(b"123456789012345678901234567890" in path.read_bytes() for path in tmp_path.glob("*.jsonl"))
