"""The list of runs has the rows and the mean reward of runs that go on or were killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from nemo_gym.viewer.finding import find_runs
from nemo_gym.viewer.server import Viewer, make_app
from tests.viewer.browsing import browsing
from tests.viewer.test_server import row, write


def begin(folder: Path, rows: list[dict[str, Any]], **start: Any) -> Path:
    """A run of ten planned rollouts, whose last start has no end unless `start` tells it."""
    path = folder / "out.jsonl"
    write(path, rows)
    document = {"schema_version": 1, "identity": {}, "starts": [{"planned": 10, **start}]}
    (folder / "out_run.json").write_bytes(orjson.dumps(document))
    return path


async def test_rows_and_mean_of_a_run_that_grows(tmp_path: Path) -> None:
    path = begin(tmp_path / "run", [row(0, 0, 1.0), row(1, 0, 0.0), row(2, 0, 0.5)])
    viewer = Viewer(find_runs([path]))

    async def listed() -> tuple[Any, Any, Any]:
        (found,) = (await client.get("/api/runs")).json()["runs"]
        return found["rows"], found["planned"], found["mean"]

    async with browsing(make_app(viewer)) as client:
        assert await listed() == (3, 10, 0.5)
        assert await listed() == (3, 10, 0.5)
        with path.open("ab") as file:
            file.write(orjson.dumps(row(3, 0, 0.0)) + b"\n")
            file.write(orjson.dumps({**row(4, 0, 1.0), "_ng_failure_class": "judge_failed"}) + b"\n")
        assert await listed() == (5, 10, 0.375)
        path.unlink()
        write(path, [row(0, 0, 1.0)])
        assert await listed() == (1, 10, 1.0)
    await viewer.close()


async def test_a_run_without_rows_so_far_has_none(tmp_path: Path) -> None:
    viewer = Viewer(find_runs([begin(tmp_path / "run", []).parent]))
    async with browsing(make_app(viewer)) as client:
        (found,) = (await client.get("/api/runs")).json()["runs"]
    await viewer.close()
    assert (found["rows"], found["mean"]) == (0, None)


async def test_a_run_that_has_ended_keeps_the_counts_of_its_manifest(tmp_path: Path) -> None:
    counts = {"planned": 10, "completed": 7}
    path = begin(tmp_path / "run", [row(0, 0, 1.0)], end="interrupted", counts=counts)
    viewer = Viewer(find_runs([path]))
    async with browsing(make_app(viewer)) as client:
        (found,) = (await client.get("/api/runs")).json()["runs"]
    await viewer.close()
    assert found["rows"] == 7
