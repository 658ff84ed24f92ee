"""Splits of an export: the prompt decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.failures import ConfigError
from tests.export.rows import exported, read, row, write


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
