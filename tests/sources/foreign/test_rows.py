"""The rows of an environment: its tasks, where they come from, and what tells one version from another."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rows.parts import read_task_origin
from nemo_gym.sources.foreign.rows import read_listing, write_rows
from tests.sources.foreign.programs import copy_program

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def test_a_row_names_the_environment_and_its_content(tmp_path: Path) -> None:
    listing = read_listing(copy_program(tmp_path), 3, "train", 0)
    rows = listing.build_rows("wayward", "player", "train", 0)
    assert [row["task_id"] for row in rows] == ["wayward:env/0", "wayward:env/1", "wayward:env/2"]
    assert rows[1]["responses_create_params"] == {"input": [{"role": "user", "content": "Act."}]}
    assert rows[1]["agent_ref"] == {"type": "responses_api_agents", "name": "player"}
    assert read_task_origin(rows[1]) == {
        "kind": "wayward",
        "name": "env",
        "version": "1",
        "digest": "d" * 64,
        "license": "MIT",
        "source": "https://example.org/wayward",
        "split": "train",
    }
    assert (rows[1]["foreign"]["seed"], rows[1]["foreign"]["task"]) == (1, "env/1")
    write_rows(tmp_path / "new" / "rows.jsonl", rows)
    lines = (tmp_path / "new" / "rows.jsonl").read_bytes().splitlines()
    assert [orjson.loads(line) for line in lines] == rows


def test_all_tasks_of_an_environment_with_an_end_are_listed(tmp_path: Path) -> None:
    listing = read_listing(copy_program(tmp_path), 100, None, 0)
    assert len(listing.tasks) == 5
    assert listing.seats == 1


def test_an_environment_that_does_not_load_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be used: LookupError: there is no such environment"):
        read_listing(copy_program(tmp_path, "unknown"), 1, None, 0)
