"""Runs of Weights & Biases offline, read from its transaction log (`make test-trackers`)."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rollouts.tracking.tracked_run import collect_and_resume

wandb = pytest.importorskip("wandb")
pytestmark = pytest.mark.filterwarnings("ignore")


def records_in(folder: Path) -> list[Any]:
    """Return the records of all starts."""
    from wandb.proto import wandb_internal_pb2 as protocol

    logs = sorted(folder.glob("wandb/offline-run-*/*.wandb"))
    return [protocol.Record.FromString(content) for log in logs for content in contents_of(log.read_bytes())]


def contents_of(log: bytes) -> Iterator[bytes]:
    """Yield the records of a transaction log: LevelDB's format, after a header of 7 bytes."""
    content, place = b"", 7
    while place + 7 <= len(log):
        left_in_block = 32_768 - place % 32_768
        if left_in_block < 7:
            place += left_in_block
            continue
        _, length, kind = struct.unpack_from("<IHB", log, place)
        content += log[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a whole record, or the last part of one
            yield content
            content = b""


def tables_in(folder: Path) -> list[Any]:
    return [
        json.loads(path.read_bytes()) for path in folder.glob("wandb/offline-run-*/files/media/table/*.json")
    ]


async def test_both_starts_are_one_run_with_figures_increments_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    summaries = await collect_and_resume(tmp_path, "wandb")
    assert not [note for summary in summaries for note in summary.notes if "tracker" in note]
    wandb.teardown()  # its service writes the rest of the logs
    records = records_in(tmp_path)
    assert len({record.run.run_id for record in records if record.HasField("run")}) == 1
    history = [
        {"/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    assert max(step.get("run/settled", 0) for step in history) == 5
    increments = [step for step in history if "samples/path" in step]
    assert len({step["samples/path"] for step in increments}) == len(increments) >= 2
    assert {step["samples/log_mode"] for step in increments} == {"INCREMENTAL"}
    assert sorted(row[0] for table in tables_in(tmp_path) for row in table["data"]) == [0, 1, 2, 3, 4]
    files = [artifact for record in records if (artifact := record.artifact).type == "rollouts"]
    assert {"out.jsonl", "out_run.json"} <= {entry.path for entry in files[-1].manifest.contents}
