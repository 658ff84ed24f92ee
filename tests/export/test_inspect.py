"""An export as a log of Inspect has every scored rollout, and counts what only its metadata holds."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from nemo_gym.export.report import LeftOut
from nemo_gym.failures import ConfigError
from tests.export.rows import exported, failed, row
from tests.sources.atif.trajectory_rows import SEARCH


def test_masked_rollouts_are_in_it_and_what_only_metadata_holds_is_counted(tmp_path: Path) -> None:
    rows = [row(0, items=[SEARCH]), row(1, 2, _ng_masked=True), failed(2)]
    samples, report = exported(tmp_path, "inspect", rows, name="log.json")
    assert [(sample["id"], sample["epoch"]) for sample in samples] == [(0, 1), (1, 3)]
    assert report.left_out == {LeftOut.FAILED: 1}
    assert report.kept_aside["item:web_search_call"] == 1
    assert orjson.loads((tmp_path / "log.json").read_bytes())["status"] == "success"


def test_a_log_is_a_document(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"written as \.json"):
        exported(tmp_path, "inspect", [row()], name="log.jsonl")
    with pytest.raises(ConfigError, match="sft is written as"):
        exported(tmp_path, "sft", [row()], name="log.json")
