"""Rows of every kind are read back equal from the trajectories that they were written as."""

from __future__ import annotations

from pathlib import Path

import orjson

from nemo_gym.json_objects import dump_json, parse_json
from nemo_gym.rows.calls import read_calls
from nemo_gym.sources.atif.media import MediaFolder
from nemo_gym.sources.atif.reading import read_trajectory
from nemo_gym.sources.atif.writing import write_trajectory
from nemo_gym.tokens.records import TokenForm
from tests.export.rows import TOOL, call, output, row, text
from tests.sources.atif.trajectory_rows import LISTED, PROMPTS, build_rows, record_items


async def test_more_than_a_hundred_rows_come_back_equal(tmp_path: Path) -> None:
    rows, media = await build_rows(), MediaFolder(tmp_path)
    assert len(rows) >= 100
    for given in rows:
        written = dump_json(write_trajectory(given, media).content)
        found = read_trajectory(parse_json(written), "here", media)
        assert found.is_ours
        assert dump(found.row) == dump(given)


def dump(row: object) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS)


def test_a_call_is_a_step_with_its_results_its_reasoning_and_its_tokens() -> None:
    written = write_trajectory(row(3, 1, 0.5, record_items(TokenForm.PACKED), tools=[TOOL])).content
    assert written["schema_version"] == "ATIF-v1.7"
    assert written["trajectory_id"] == "3-1"
    assert written["extra"]["reward"] == 0.5
    steps = written["steps"]
    assert [step["source"] for step in steps] == ["user", "agent", "agent", "user", "agent", "agent"]
    assert [step["step_id"] for step in steps] == [1, 2, 3, 4, 5, 6]
    first = steps[1]
    assert first["reasoning_content"] == "begin"
    assert first["tool_calls"][0]["arguments"] == {"city": "Rome"}
    assert first["observation"]["results"] == [{"source_call_id": "call_x", "content": "sunny"}]
    assert first["metrics"]["prompt_token_ids"] == [1, 2, 3]
    assert steps[2]["metrics"]["prompt_token_ids"] == [1, 2, 3, 4, 5, 6]  # the whole prompt
    assert first["metrics"]["completion_token_ids"] == [4, 5]
    assert "metrics" not in steps[5]  # a masked call
    assert written["agent"]["tool_definitions"][0]["function"]["name"] == "get_weather"


def test_calls_beside_the_main_conversation_are_a_subagent() -> None:
    written = write_trajectory(row(0, 0, 1.0, record_items(TokenForm.LISTS)))
    (subagent,) = written.content["subagent_trajectories"]
    assert subagent["trajectory_id"] == "0-0/1"
    assert [step["metrics"]["completion_token_ids"] for step in subagent["steps"]] == [[52], [54, 55]]
    assert written.kept_aside == {"subagent": 1, "rewritten_history": 1}


def test_whatever_has_no_field_is_counted() -> None:
    kinds = {kind for items in LISTED for kind in write_trajectory(row(items=items)).kept_aside}
    assert kinds == {
        "arguments",
        "item:web_search_call",
        "item:mcp_call",
        "item:custom_tool_call",
        "item:tool",
        "item:None",
        "content:input_image",
    }


def test_images_and_audio_are_files_and_audio_needs_the_newer_version(tmp_path: Path) -> None:
    media = MediaFolder(tmp_path, "out_media")
    image, audio = (write_trajectory(row(prompt=PROMPTS[place]), media).content for place in (5, 8))
    source = image["steps"][0]["message"][1]["source"]
    assert source["media_type"] == "image/png"
    assert (tmp_path / source["path"]).read_bytes() == b"\x89PNG not really"
    assert (image["schema_version"], audio["schema_version"]) == ("ATIF-v1.7", "ATIF-v1.8")
    assert audio["steps"][0]["message"][0]["source"]["media_type"] == "audio/wav"


def test_a_conversation_in_the_request_is_copied_context() -> None:
    steps = write_trajectory(row(prompt=PROMPTS[10])).content["steps"]
    assert [step.get("is_copied_context", False) for step in steps] == [False, True, True, False, False]


def test_tokens_come_back_call_by_call(tmp_path: Path) -> None:
    given = row(items=record_items(TokenForm.CONTRACT))
    found = read_trajectory(write_trajectory(given).content, "here").row
    assert read_calls(found) == read_calls(given)


def test_a_text_answer_has_one_step_after_the_question() -> None:
    steps = write_trajectory(row(items=[call("Rome"), output("x"), text("end")])).content["steps"]
    assert [step["message"] for step in steps] == ["Question 0?", "", "end"]
