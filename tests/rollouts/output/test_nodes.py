"""The nodes of a run are those of its gym at the end of the run, with the events of its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.names import NODES_FILE
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.nodes import drop_earlier_events, keep_nodes, read_nodes

START = "2026-05-01T18:30:00+00:00"
BEGAN = 1_777_660_200.0
EVENTS: list[Any] = [{"at": BEGAN - 1, "kind": "up"}, {"at": BEGAN, "kind": "lost"}, {"at": "late"}, None]


def write_nodes(logs: Path, **fields: Any) -> Path:
    logs.mkdir(exist_ok=True)
    (logs / NODES_FILE).write_bytes(orjson.dumps({"at": BEGAN + 9, "events": EVENTS, **fields}))
    return logs


def test_the_file_is_kept_with_the_events_of_the_run(tmp_path: Path) -> None:
    files = RunFiles.from_output(tmp_path / "out.jsonl")
    keep_nodes(files, write_nodes(tmp_path / "logs", nodes=["x"]), START)
    assert read_nodes(files.nodes) == {
        "at": BEGAN + 9,
        "nodes": ["x"],
        "events": [{"at": BEGAN, "kind": "lost"}],
    }
    (tmp_path / "out.jsonl").write_text("{}\n")
    aside = files.move_aside()
    assert aside is not None
    assert (files.nodes.exists(), aside.nodes.exists()) == (False, True)


@pytest.mark.parametrize("logs", ["logs", None])
def test_a_start_on_one_machine_leaves_no_nodes_of_an_earlier_one(tmp_path: Path, logs: str | None) -> None:
    files = RunFiles.from_output(tmp_path / "out.jsonl")
    files.nodes.write_text("{}")
    for _ in range(2):
        keep_nodes(files, tmp_path / logs if logs else None, START)
        assert not files.nodes.exists()


@pytest.mark.parametrize("content", [b"{torn", b"[]", b"null", b"\xff"])
def test_a_damaged_file_is_no_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NODES_FILE).write_bytes(content)
    assert read_nodes(tmp_path / NODES_FILE) is None
    assert read_nodes(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("document", "kept"),
    [({"events": EVENTS}, 4), ({"events": {"at": 1}}, 0), ({"events": None}, 0), ({}, 0)],
)
def test_a_start_without_a_time_has_all_events(document: dict[str, Any], kept: int) -> None:
    assert len(drop_earlier_events(document, "some day")["events"]) == kept
