"""Files beside the rows may be of any kind and form. The list of runs names what is wrong, and is whole."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nemo_gym.metrics import aggregate
from nemo_gym.rollouts.output.run_state import RunState
from nemo_gym.viewer.companions import find_fault, read_companion, read_figures, read_last_start
from nemo_gym.viewer.finding import find_runs
from nemo_gym.viewer.server import Viewer, make_app
from tests.viewer.browsing import Browser, browsing

ROW = b'{"_ng_task_index":0,"_ng_rollout_index":0,"reward":1.0,"response":{}}\n'
COMPANIONS = [
    "_run.json",
    "_aggregate_metrics.json",
    "_failures.jsonl",
    "_materialized_inputs.jsonl",
    "_index",
    "_failures_index",
    "_token_texts.json",
    "_nodes.json",
    "_looks_fine.json",
]
START = {"end": "complete", "started_at": "2026-05-01T18:29:00+00:00", "planned": 1, "logs": "logs"}


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has at most 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path.name)
    finally:
        os.chdir(here)


def make_folder(path: Path) -> None:
    path.mkdir()


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_nothing(path: Path) -> None:
    path.symlink_to("absent")


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def link_out(path: Path) -> None:
    path.symlink_to("/etc/hostname")


ODD: dict[str, Callable[[Path], None]] = {
    "is a named pipe": make_pipe,
    "is a socket": make_socket,
    "is a folder": make_folder,
    "leads out of the folder; name": link_to_device,
    "does not exist": link_to_nothing,
    "cannot be read (": link_to_itself,
    "leads out of the folder": link_out,
}


def make_run(folder: Path, name: str = "out", start: Any = START) -> Path:
    rows = folder / f"{name}.jsonl"
    rows.write_bytes(ROW)
    (folder / f"{name}_run.json").write_bytes(orjson.dumps({"schema_version": 1, "starts": [start]}))
    return rows


@asynccontextmanager
async def listed(folder: Path) -> AsyncIterator[tuple[Browser, dict[str, Any]]]:
    """Serve the runs of a folder, and yield a browser and the list of runs by title."""
    viewer = Viewer(find_runs([folder]))
    async with browsing(make_app(viewer)) as client:
        answer = await client.get("/api/runs")
        assert answer.status == 200
        yield client, {run["title"]: run for run in answer.json()["runs"]}
    await viewer.close()


@pytest.mark.parametrize("words", ODD)
async def test_odd_rows_are_listed_and_never_opened(tmp_path: Path, words: str) -> None:
    for name in ("x.jsonl", "y.jsonl.gz", "z.jsonl.zst"):
        ODD[words](tmp_path / name)
    make_run(tmp_path)
    async with listed(tmp_path) as (client, runs):
        assert runs.keys() == {"out", "x", "y", "z"}
        out = runs.pop("out")
        assert (out["state"], out["problems"]) == (RunState.COMPLETE, [])
        for run in runs.values():
            assert run["state"] == RunState.UNREADABLE
            assert words in run["problems"][0]
            await ask_every_route(client, run["id"], out["id"])


@pytest.mark.parametrize("words", ODD)
async def test_odd_companions_are_named_and_never_opened(tmp_path: Path, words: str) -> None:
    for number, companion in enumerate(COMPANIONS):
        (tmp_path / f"x{number}.jsonl").write_bytes(ROW)
        ODD[words](tmp_path / f"x{number}{companion}")
    make_run(tmp_path)
    async with listed(tmp_path) as (client, runs):
        out = runs.pop("out")
        assert (out["state"], out["problems"]) == (RunState.COMPLETE, [])
        for number, companion in enumerate(COMPANIONS):
            run = runs[f"x{number}"]
            (problem,) = run["problems"]
            assert problem.startswith(f"x{number}{companion} ")
            assert words in problem
            blocks = await client.get(f"/api/runs/{run['id']}/blocks")
            assert (blocks.status, bool(blocks.body)) == (200, True)
            await ask_every_route(client, run["id"], out["id"])


async def test_odd_files_are_not_opened_by_workers(tmp_path: Path) -> None:
    make_pipe(tmp_path / "x.jsonl")
    make_run(tmp_path, "y")
    make_pipe(tmp_path / "y_failures.jsonl")
    viewer = Viewer(find_runs([tmp_path]))
    async with browsing(make_app(viewer)) as client:
        for run in (each.id for each in viewer.runs.list_runs()):
            for path in ("search?q=reward", "search?q=reward&kind=failures", "flags"):
                assert (await client.get(f"/api/runs/{run}/{path}")).status == 200
    await viewer.close()


async def ask_every_route(client: Any, run: str, other: str) -> None:
    """Assert that no route about a run fails: what cannot be answered is refused."""
    row = f"0-{len(ROW)}"
    for path in (
        *("", "/blocks", "/blocks?kind=failures", f"/rows/{row}", f"/cards?at={row}", f"/tokens/{row}"),
        *(
            "/search?q=reward",
            "/search?q=x&kind=failures",
            "/failures",
            "/nodes",
            "/log?file=a.log",
            "/flags",
        ),
    ):
        answer = await client.get(f"/api/runs/{run}{path}")
        assert answer.status < 500, path
    for pair in (f"before={run}&after={other}", f"before={other}&after={run}"):
        assert (await client.get(f"/api/compare?{pair}")).status < 500
    assert (await client.get(f"/api/rank?runs={run},{other}")).status < 500


NAMES = (
    *(
        "schema_version",
        "identity",
        "starts",
        "counts",
        "completed",
        "failed",
        "planned",
        "truncated",
        "end",
        "logs",
    ),
    *(
        "started_at",
        "agent_metrics",
        "count/scored",
        "mean/reward",
        "min/reward",
        "max/reward",
        "ci95_low/reward",
    ),
    *(
        "ci95_high/reward",
        "pass@1/reward",
        "nodes",
        "replicas",
        "events",
        "at",
        "losses",
        "left_out",
        "_ng_failure",
    ),
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([1e308, -1.0, 10**30, "", "a", "2026-05-01T18:29:00", "0001-01-01", "/etc", "\0"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(NAMES),
            inner,
            max_size=6,
        )
    ),
    max_leaves=12,
)
SCORES = {"count/scored": 2, "mean/reward": 0.5, "min/reward": 0, "max/reward": 1}


def wrapped(found: Any) -> st.SearchStrategy[Any]:
    """Put any JSON where the viewer looks for parts of a manifest or of metrics."""
    return st.sampled_from(
        [
            found,
            {"starts": [found]},
            {"starts": [{**START, "counts": found}]},
            {"starts": [{**START, "logs": found}]},
            {"starts": [START], "identity": found},
            {"nodes": [found], "replicas": [found], "events": [found], "at": found},
            [{"agent_metrics": found}],
            [{"agent_metrics": {**SCORES, "count/scored": found}}],
            [{"agent_metrics": {**SCORES, "pass@3/reward": found, "ci95_low/reward": found}}],
        ]
    )


def dump(content: Any) -> bytes:
    return orjson.dumps(content, default=str) if not _has_large(content) else str(content).encode()


def _has_large(content: Any) -> bool:
    parts = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return (isinstance(content, int) and abs(content) >= 1 << 63) or any(map(_has_large, parts))


EXAMPLES = [
    ({"starts": [{"counts": 5}]}, 0, "_run.json"),
    ({"counts": {"completed": "a"}}, 0, "_run.json"),
    ({"starts": [{"counts": {"completed": "a"}}]}, 0, "_run.json"),
    ([{"agent_metrics": {**SCORES, "count/scored": None}}], 0, "_aggregate_metrics.json"),
]


@settings(deadline=None, max_examples=5, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(JSON.flatmap(wrapped), st.just(0) | st.integers(0, 40), st.sampled_from(COMPANIONS)),
        min_size=30,
        max_size=30,
    )
)
@example(EXAMPLES)
async def test_any_json_beside_the_rows_leaves_the_list_whole(
    tmp_path_factory: pytest.TempPathFactory, companions: list[tuple[Any, int, str]]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    make_run(folder, "a")
    make_run(folder, "z")
    expected = {run.title: run.summary() for run in find_runs([folder])}
    for number, (found, torn, companion) in enumerate(companions):
        make_run(folder, f"x{number}")
        content = dump(found)
        (folder / f"x{number}{companion}").write_bytes(content[: len(content) - torn] + b"\n")
    async with listed(folder) as (client, runs):
        assert len(runs) == len(companions) + 2
        for name, run in expected.items():
            assert runs[name] == orjson.loads(orjson.dumps({**run, "id": runs[name]["id"]}))
        for number in range(len(companions)):
            run = runs[f"x{number}"]["id"]
            for path in ("", "/nodes", "/failures"):
                assert (await client.get(f"/api/runs/{run}{path}")).status == 200, companions[number]


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (5, "starts[0]: Input should be a valid dictionary"),
        ({"counts": 5}, "starts[0].counts: Input should be"),
        ({"counts": {"completed": "a", "failed": -1}}, "starts[0].counts.completed: "),
        ({"counts": {"completed": "a", "failed": -1}}, "starts[0].counts.failed: "),
        ({"planned": 1.5, "started_at": 3}, "starts[0].planned: "),
        ({"end": ["complete"]}, "starts[0].end: "),
    ],
)
def test_the_problem_of_a_manifest_has_its_place(tmp_path: Path, start: Any, words: str) -> None:
    rows = make_run(tmp_path, start=start)
    found = read_last_start(rows.with_name("out_run.json"), (tmp_path,))
    assert found.start is None
    assert found.problem is not None
    assert words in found.problem
    assert found.problem.startswith("out_run.json is damaged: ")


@pytest.mark.parametrize(
    "content", [b"{torn", b"[1]", b'{"starts": 3}', b"[" * 100_000, b"\xff", b'"' + b"\\ud800" + b'"']
)
def test_a_torn_manifest_is_named(tmp_path: Path, content: bytes) -> None:
    rows = make_run(tmp_path)
    rows.with_name("out_run.json").write_bytes(content)
    (run,) = find_runs([tmp_path])
    assert run.state() is RunState.UNKNOWN
    (problem,) = run.summary()["problems"]
    assert problem.startswith("out_run.json ")


def test_metrics_of_numbers_and_other_things(tmp_path: Path) -> None:
    path = tmp_path / "out_aggregate_metrics.json"
    assert read_figures(path, (tmp_path,)).problem is None
    scored = aggregate([{**orjson.loads(ROW), "_ng_task_index": task} for task in range(3)])["agent_metrics"]
    path.write_bytes(orjson.dumps([{"agent_metrics": scored}]))
    found = read_figures(path, (tmp_path,))
    assert (found.shown["mean"], found.problem) == (1.0, None)
    path.write_bytes(
        orjson.dumps([{"agent_metrics": {**scored, f"pass@{'9' * 5000}/reward": 1.0, "pass@1/reward": "x"}}])
    )
    found = read_figures(path, (tmp_path,))
    assert not any(found.shown.values())
    assert (
        found.problem
        == "out_aggregate_metrics.json is damaged: [0].agent_metrics: pass@1/reward must be numbers"
    )


def test_links_within_the_folder_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    make_run(tmp_path / "real")
    for name in ("out.jsonl", "out_run.json"):
        (tmp_path / name).symlink_to(f"real/{name}")
    (run,) = find_runs([tmp_path])
    assert (run.state(), run.summary()["problems"]) == (RunState.COMPLETE, [])


def test_a_link_that_a_person_names_is_followed(tmp_path: Path) -> None:
    for name in ("elsewhere", "here"):
        (tmp_path / name).mkdir()
    rows = make_run(tmp_path / "elsewhere")
    link = tmp_path / "here" / "out.jsonl"
    link.symlink_to(rows)
    (run,) = find_runs([link])
    assert run.summary()["problems"] == []
    (listed,) = find_runs([link.parent])
    assert listed.state() is RunState.UNREADABLE
    assert "leads out of the folder; name the run itself" in listed.summary()["problems"][0]


@pytest.mark.parametrize("logs", ["/etc", "..", "../../etc", "\0", "a" * 5000, "outside", "/var/log", "~"])
def test_a_manifest_names_no_folder_of_others(tmp_path: Path, logs: str) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "outside").symlink_to("/etc")
    make_run(folder, start={**START, "logs": logs})
    (run,) = find_runs([folder])
    if logs == "~":  # a folder beside the rows: nothing expands it
        assert run.logs() == folder / "~"
        return
    assert run.logs() is None
    assert "names a folder of logs" in run.summary()["problems"][0]


@pytest.mark.parametrize("logs", ["logs", ".", "../.nemo_gym/logs/20260501_182900_123", "deep/logs"])
def test_logs_beside_the_rows_and_of_a_gym_are_read(tmp_path: Path, logs: str) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    make_run(folder, start={**START, "logs": logs})
    (run,) = find_runs([folder])
    assert run.logs() == (folder / logs).resolve()
    assert run.summary()["problems"] == []


def test_names_that_are_no_text_are_shown(tmp_path: Path) -> None:
    name = os.fsdecode(b"n\xffme")
    make_run(tmp_path, name)
    (run,) = find_runs([tmp_path])
    assert orjson.loads(orjson.dumps(run.details()))["title"] == r"n\xffme"
    assert find_fault(run.files.rows, run.homes) is None


def test_a_large_companion_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "out_run.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    assert "has more than 256 MiB" in str(read_companion(path, (tmp_path,)).problem)
