"""A file of nodes is read as the page needs it, whatever it holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.names import NODES_FILE
from nemo_gym.viewer.finding import find_runs
from nemo_gym.viewer.nodes import Standing, logs_in, read_nodes, summarize_nodes
from tests.browser.rows import LOST_AT, nodes_document, row_of, write_nodes, write_run

NOW = LOST_AT + 10


def found_in(document: dict[str, Any], *, is_kept: bool = False) -> dict[str, Any]:
    found = read_nodes(document, is_kept=is_kept, now=NOW)
    assert found is not None
    return found


def test_nodes_replicas_and_events_are_those_of_the_file() -> None:
    found = found_in(nodes_document())
    assert [(each["name"], each["state"], each["replicas"]) for each in found["nodes"]] == [
        ("node1", "up", {"policy": 2}),
        ("node2", "lost", {}),
    ]
    assert [each["replica"] for each in found["replicas"]] == [0, 1]
    lost, moved = found["events"]
    assert lost == {
        "kind": "lost",
        "text": "the node node2 was lost, with policy #1",
        "node": "node2",
        "at": LOST_AT,
        "servers": ["policy"],
    }
    assert moved["kind"] == "moved"
    assert summarize_nodes(found) == {"count": 2, "up": 1, "losses": 1}
    assert logs_in(found) == {"node_node1.log", "node_node2.log", "policy.0.log", "policy.1.log"}


@pytest.mark.parametrize(
    ("changes", "is_kept", "standing"),
    [
        ({}, False, Standing.CURRENT),
        ({"at": NOW - 3600}, False, Standing.SILENT),
        ({"at": NOW - 3600, "ended_at": NOW - 3600}, False, Standing.ENDED),
        ({"at": NOW - 3600, "ended_at": NOW - 3600}, True, Standing.KEPT),
    ],
)
def test_the_standing_tells_of_when_the_nodes_are(
    changes: dict[str, Any], is_kept: bool, standing: Standing
) -> None:
    assert found_in(nodes_document(**changes), is_kept=is_kept)["standing"] is standing


@pytest.mark.parametrize("wrong", [None, 7, "text", [], {}, [None], ["a"], [[]], {"a": "b"}, float("inf")])
def test_fields_of_other_types_are_left_out(wrong: Any) -> None:
    for name in ("at", "events", "replicas", "left_out"):
        found_in(nodes_document(**{name: wrong}))
    assert read_nodes({**nodes_document(), "nodes": wrong}, is_kept=False) is None
    fields = {name: wrong for part in ("nodes", "replicas", "events") for name in nodes_document()[part][0]}
    parts = {part: [fields] for part in ("nodes", "replicas", "events")}
    found = found_in(nodes_document(**parts))
    assert isinstance(found["nodes"][0]["name"], str)
    assert isinstance(found["nodes"][0]["load"], int | float)
    assert all(isinstance(each, str) for each in found["events"][0]["servers"])
    orjson.dumps(found)


@pytest.mark.parametrize("name", ["../secret.log", "/etc/passwd", "passwd", "", "a/b.log"])
def test_a_log_outside_of_the_folder_is_no_log(name: str) -> None:
    document = nodes_document()
    document["nodes"][0]["log"] = document["replicas"][0]["log"] = name
    assert name not in logs_in(found_in(document))
    assert logs_in(None) == set()


def test_a_run_has_the_nodes_of_its_gym_until_it_has_its_own(tmp_path: Path) -> None:
    rows = write_run(tmp_path / "out.jsonl", [row_of(0, 0, [])])
    (run,) = find_runs([rows])
    assert (run.nodes(), run.details()["nodes"]) == (None, None)
    write_nodes(rows)
    live = run.nodes()
    assert live is not None
    assert live["standing"] is Standing.SILENT
    assert run.details()["nodes"] == {"count": 2, "up": 1, "losses": 1}
    run.files.nodes.write_bytes(orjson.dumps(nodes_document(nodes=[{"name": "kept", "state": "up"}])))
    assert run.nodes() == live, "the file of an earlier start does not count while the run is on"
    manifest = orjson.loads(run.files.manifest.read_bytes())
    manifest["starts"][-1]["end"] = "complete"
    run.files.manifest.write_bytes(orjson.dumps(manifest))
    kept = run.nodes()
    assert kept is not None
    assert (kept["standing"], [each["name"] for each in kept["nodes"]]) == (Standing.KEPT, ["kept"])
    assert "out_nodes.json" in {each["name"] for each in run.details()["files"]}
    (tmp_path / "logs" / NODES_FILE).unlink()
    run.files.nodes.unlink()
    assert run.nodes() is None
