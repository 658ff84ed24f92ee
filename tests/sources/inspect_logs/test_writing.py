"""A row that was written as a sample is read back equal, until its sample is changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nemo_gym.rollouts.lookback.trajectories import read_rows
from nemo_gym.rows.identity import identity_in
from nemo_gym.sources.inspect_logs.writing import build_header, write_sample
from tests.export.rows import row
from tests.sources.atif.trajectory_rows import IMAGE, SEARCH, build_rows


def write_log(folder: Path, samples: list[dict[str, Any]]) -> Path:
    path = folder / "log.json"
    path.write_text(json.dumps({**build_header(), "samples": samples}))
    return path


async def test_rows_of_every_kind_come_back(tmp_path: Path) -> None:
    rows = [row for row in await build_rows() if identity_in(row) is not None]
    assert len(rows) >= 100
    found = read_rows(write_log(tmp_path, [write_sample(row).content for row in rows]))
    assert found.rows == rows
    assert (found.ours, found.lost) == (len(rows), {})


def test_a_sample_has_what_readers_of_logs_show() -> None:
    sample = write_sample(row(3, 1, reward=0.5)).content
    assert (sample["id"], sample["epoch"], sample["scores"]) == (3, 2, {"reward": {"value": 0.5}})
    assert sample["input"] == [message for message in sample["messages"] if message["role"] == "user"]
    assert sample["output"]["choices"][0]["message"] == sample["messages"][-1]


def test_what_has_no_field_is_counted() -> None:
    assert write_sample(row(0, items=[SEARCH])).kept_aside["item:web_search_call"] == 1
    assert write_sample(row(0, prompt=[{"role": "user", "content": [IMAGE]}])).kept_aside == {}


def test_a_changed_sample_is_another_programs(tmp_path: Path) -> None:
    sample = write_sample(row(0)).content
    sample["messages"][-1]["content"] = "Changed"
    found = read_rows(write_log(tmp_path, [sample]))
    assert (len(found.rows), found.ours) == (1, 0)
    assert found.rows[0]["response"]["output"][-1]["content"][0]["text"] == "Changed"
