"""Rows of task folders, and the folders that were refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.task_folders.dataset import find_tasks
from nemo_gym.sources.task_folders.digest import digest_folder
from nemo_gym.sources.task_folders.requirements import Terms
from nemo_gym.sources.task_folders.rows import build_rows, write_rows
from tests.sources.task_folders.task_maker import OFFLINE, make_task


def test_a_row_tells_one_version_of_a_folder_from_another(tmp_path: Path) -> None:
    settings = f'source = "corpus"\n[metadata]\nlicense = "MIT"\nsplit = "test"\n{OFFLINE}[agent]\ntimeout_sec = 30\n'
    folder = make_task(tmp_path / "tasks" / "one", settings)
    (row,) = build_rows(find_tasks(tmp_path / "tasks"), Terms()).rows
    assert (row["task_id"], row["folder_digest"], row["agent_timeout_s"]) == (
        "one",
        digest_folder(folder),
        30,
    )
    about = row["task_folder"]
    assert (about["source"], about["license"], about["split"], about["folder"]) == (
        "corpus",
        "MIT",
        "test",
        "one",
    )
    assert row["responses_create_params"]["input"][0]["content"] == "Write 1 to /tmp/answer.\n"
    (folder / "tests" / "test.sh").write_text("other")
    (changed,) = build_rows(find_tasks(tmp_path / "tasks"), Terms()).rows
    assert changed["folder_digest"] != row["folder_digest"]


def test_refusals_are_counted_by_reason(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_task(tmp_path / "tasks" / name, "")
    make_task(tmp_path / "tasks" / "c", without=("tests/test.sh",))
    make_task(tmp_path / "tasks" / "d")
    found = build_rows(find_tasks(tmp_path / "tasks"), Terms())
    assert (len(found.rows), dict(found.reasons)) == (1, {"network_public": 2, "missing_tests": 1})
    assert found.count() == "3 of 4 task folders are refused (2 network_public, 1 missing_tests)"
    assert (found.describe() or "").startswith(
        "3 of 4 task folders are refused (2 network_public, 1 missing_tests). a: "
    )
    write_rows(tmp_path / "out" / "rows.jsonl", found, tmp_path)
    assert [
        json.loads(line)["task_id"] for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()
    ] == ["d"]


def test_without_any_row_the_refusals_are_the_error(tmp_path: Path) -> None:
    make_task(tmp_path / "tasks" / "a", "")
    with pytest.raises(ConfigError, match="1 network_public") as raised:
        write_rows(tmp_path / "rows.jsonl", build_rows(find_tasks(tmp_path / "tasks"), Terms()), tmp_path)
    assert "+network=none" in (raised.value.failure.remedy or "")
