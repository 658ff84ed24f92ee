from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.export.report import LeftOut
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.identity import RolloutId
from tests.export.rows import call, exported, output, read, row, text, write


def test_each_filter_leaves_out_for_its_reason(tmp_path: Path) -> None:
    rows = [
        row(0, 0, 1.0),
        row(1, 0, 0.2),
        row(2, 0, 1.0, tokens=500),
        row(3, 0, 1.0, tokens=None),
        row(4, 0, 1.0, agent_ref={"type": "responses_api_agents", "name": "maths_agent"}),
    ]
    written, report = exported(
        tmp_path, "sft", rows, min_reward=0.5, max_output_tokens=100, environments=("weather*",)
    )
    assert len(written) == 1
    assert report.left_out == {
        LeftOut.REWARD: 1,
        LeftOut.LENGTH: 1,
        LeftOut.UNKNOWN_LENGTH: 1,
        LeftOut.ENVIRONMENT: 1,
    }


def test_duplicate_rows_are_written_once_by_default(tmp_path: Path) -> None:
    rows = [row(0, n, items=[call("Oslo", f"c{n}"), output("x", f"c{n}"), text("same")]) for n in range(3)]
    written, report = exported(tmp_path, "sft", rows)
    assert (len(written), report.duplicates, report.exported) == (1, 2, 3)
    written, report = exported(tmp_path, "sft", rows, merge_equal_rows=False)
    assert (len(written), report.duplicates) == (3, 0)


def test_rows_of_a_group_are_never_merged(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="deduplicate"):
        exported(tmp_path, "grpo", [row()], merge_equal_rows=True)


def test_splits_keep_tasks_together_and_depend_on_the_prompt_alone(tmp_path: Path) -> None:
    rows = [row(task, repeat) for task in range(200) for repeat in range(2)]
    shares = {"train": 0.8, "test": 0.2}

    def split(given: list[dict[str, Any]], name: str) -> dict[str, set[str]]:
        path = write(tmp_path / f"{name}.jsonl", given)
        export(
            ExportSettings(format="sft", inputs=[path], output=tmp_path / f"{name}_out.jsonl", splits=shares)
        )
        return {
            part: {each["messages"][0]["content"] for each in read(tmp_path / f"{name}_out_{part}.jsonl")}
            for part in shares
        }

    whole = split(rows, "whole")
    assert not whole["train"] & whole["test"]
    assert len(whole["train"] | whole["test"]) == 200
    assert 20 <= len(whole["test"]) <= 60
    some = [{**each, "_ng_task_index": 1000 - each["_ng_task_index"]} for each in rows[100:]]
    part = split(some, "part")
    assert part["train"] <= whole["train"]
    assert part["test"] <= whole["test"]


def test_tasks_with_equal_prompts_can_be_split_by_their_number(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", [row(task, prompt="Play.") for task in range(50)])
    settings: dict[str, Any] = {"splits": {"a": 0.5, "b": 0.5}, "merge_equal_rows": False, "overwrite": True}
    for by, several in (("prompt", False), ("task", True)):
        report = export(
            ExportSettings(
                format="sft", inputs=[path], output=tmp_path / "out.jsonl", split_by=by, **settings
            )
        )
        assert (min(report.rows.values()) > 0) is several


@pytest.mark.parametrize("shares", [{"a": 0.5}, {"a": 1.5, "b": -0.5}, {"a": float("nan")}])
def test_shares_that_do_not_add_up_to_one_are_refused(shares: dict[str, float], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="add up to 1"):
        exported(tmp_path, "sft", [row()], splits=shares)


@pytest.mark.parametrize("name", ["a/b", "", "a b"])
def test_split_names_that_are_invalid_in_file_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="become parts of file names"):
        exported(tmp_path, "sft", [row()], splits={name: 1.0})


def test_all_wrong_options_are_reported_with_the_valid_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        exported(tmp_path, "dpo", [row()], options={"pairs": "some", "marginn": 1})
    assert len(caught.value.problems) == 2
    assert "margin" in str(caught.value.problems[0].remedy)


def test_existing_files_are_replaced_only_with_overwrite_and_never_by_a_failed_export(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", [row()])
    output = tmp_path / "out.jsonl"
    output.write_text("mine")
    with pytest.raises(ConfigError, match="the output exists"):
        export(ExportSettings(format="sft", inputs=[path], output=output))
    whole = path.read_bytes()
    for damage in (b"damaged\n", RolloutId(1, 0).head() + b'"reward":1.0,"resp{}\n'):
        path.write_bytes(whole + damage)
        with pytest.raises(ConfigError, match=r"in\.jsonl:2: the line is not JSON"):
            export(ExportSettings(format="sft", inputs=[path], output=output, overwrite=True))
    assert output.read_text() == "mine"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]


def test_argument_objects_in_parquet_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Parquet"):
        exported(tmp_path, "sft", [row()], name="out.parquet")
    written, _ = exported(tmp_path, "sft", [row()], name="out.parquet", options={"arguments": "string"})
    assert written[0]["messages"][1]["content"] == "answer 0/0"
