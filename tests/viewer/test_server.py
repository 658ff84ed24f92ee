"""The routes of the viewer, on the files of a run."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from nemo_gym.rollouts.output.row_index import decode_block, split_blocks
from nemo_gym.viewer.finding import find_runs
from nemo_gym.viewer.server import Viewer, make_app
from tests.browser.rows import LOST_AT, write_nodes
from tests.viewer.browsing import Browser, browsing


def row(task: int, rollout: int, reward: float, text: str = "an answer") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": rollout,
        "responses_create_params": {"input": [{"role": "user", "content": f"Question {task}?"}]},
        "agent_ref": {"type": "responses_api_agents", "name": "simple_agent"},
        "reward": reward,
        "response": {"output": [{"type": "message", "role": "assistant", "content": content}]},
        "_ng_outcome": "completed",
    }


def failure(task: int, peer: str) -> dict[str, Any]:
    return {
        "_ng_task_index": task,
        "_ng_rollout_index": 0,
        "_ng_failure_class": "model:timeout",
        "_ng_failure": {"message": f"{peer} did not answer", "remedy": "Wait.", "peer": peer},
    }


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in rows))


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Browser]:
    before, after = tmp_path / "before" / "out.jsonl", tmp_path / "after" / "out.jsonl"
    write(before, [row(task, rollout, float(task % 2)) for task in range(3) for rollout in range(2)])
    write(after, [row(task, 0, 1.0, 'He said "Näh!"\nand left' if task else "yes") for task in range(3)])
    write(
        after.with_name("out_failures.jsonl"),
        [failure(3, "engine"), failure(4, "judge"), failure(5, "engine")],
    )
    viewer = Viewer(find_runs([before, after]))
    async with browsing(make_app(viewer)) as client:
        yield client
    await viewer.close()


async def got(client: Browser, path: str, **query: str) -> Any:
    answer = await client.get(path, params=query)
    assert answer.status == 200
    return answer.json()


async def ids(client: Browser) -> dict[str, str]:
    """Return the id of each run by the name of its folder."""
    runs = (await got(client, "/api/runs"))["runs"]
    return {Path(run["path"]).parent.name: run["id"] for run in runs}


async def places(client: Browser, run: str, kind: str = "rows") -> list[str]:
    answer = await client.get(f"/api/runs/{run}/blocks", params={"kind": kind})
    found, start = [], 0
    for block in map(decode_block, split_blocks(answer.body)):
        for length in block.columns["length"]:
            found.append(f"{start}-{int(length)}")
            start += int(length)
    return found


async def test_runs_have_a_state_and_files(client: Browser, tmp_path: Path) -> None:
    run = (await ids(client))["after"]
    (tmp_path / "after" / "out_events.jsonl").write_text("{}\n")
    details = await got(client, f"/api/runs/{run}")
    assert details["state"] == "unknown"
    assert [(file["role"], file["authoritative"]) for file in details["files"]] == [
        ("rows", True),
        ("failures", True),
        ("requests of control", True),
    ]


async def test_blocks_lead_to_rows_and_cards(client: Browser) -> None:
    run = (await ids(client))["after"]
    found = await places(client, run)
    answer = await client.get(f"/api/runs/{run}/rows/{found[1]}")
    assert answer.json() == row(1, 0, 1.0, 'He said "Näh!"\nand left')
    cards = (await got(client, f"/api/runs/{run}/cards", at=",".join(found[:2])))["cards"]
    assert cards == [
        {"title": "Question 0?", "answer": "yes"},
        {"title": "Question 1?", "answer": 'He said "Näh!" and left'},
    ]
    rest = await client.get(f"/api/runs/{run}/blocks", params={"from": 1})
    assert rest.body == b""


@pytest.mark.parametrize("place", ["0-999999", "x-1", "5", "-1-4", "0-0", "../../etc"])
async def test_a_place_outside_the_file_is_an_error(client: Browser, place: str) -> None:
    run = (await ids(client))["after"]
    answer = await client.get(f"/api/runs/{run}/rows/{place}")
    assert answer.status in (400, 404)


@pytest.mark.parametrize(
    "query",
    [
        *(f"blocks?from={number}" for number in ("99999999999999999999", "-1", "1e9", "x", "9" * 5000)),
        *(f"log?file=a.log&at={number}" for number in ("nan", "inf", "1e999", "x")),
        *(f"cards?at={place}" for place in ("9" * 30 + "-1", "0-" + "9" * 30, "0-1,x", "\u0663-1", "-", "")),
        "cards?at=0-1&kind=other",
        *("rows/" + "9" * 30 + "-1", "rows/0-99999999999999999999", "tokens/99999999999999999999-1"),
    ],
)
async def test_numbers_out_of_bounds_are_refused(client: Browser, query: str) -> None:
    run = (await ids(client))["after"]
    answer = await client.get(f"/api/runs/{run}/{query}")
    assert 400 <= answer.status < 500


@pytest.mark.parametrize("line", [b"3", b"[]", b"null", b'"x"', b"{torn", b"[" * 100_000, b'{"response":7}'])
async def test_odd_rows_have_cards_and_no_tokens(tmp_path: Path, line: bytes) -> None:
    rows = tmp_path / "odd" / "out.jsonl"
    write(rows, [row(0, 0, 1.0)])
    start = rows.stat().st_size
    with rows.open("ab") as file:
        file.write(line + b"\n")
    viewer = Viewer(find_runs([rows]))
    async with browsing(make_app(viewer)) as client:
        place = f"{start}-{len(line) + 1}"
        assert (await places(client, "r0"))[1] == place
        assert (await got(client, "/api/runs/r0/cards", at=place))["cards"] == [{"title": "", "answer": ""}]
        assert (await client.get(f"/api/runs/r0/rows/{place}")).body == line + b"\n"
        assert (await client.get(f"/api/runs/r0/tokens/{place}")).status == 404
    await viewer.close()


@pytest.mark.parametrize(
    ("text", "hits"), [("ANSWER", 6), ("question 1", 3), ('"näh', 2), ('"\nAND', 2), ("absent", 0), ("", 0)]
)
async def test_search_finds_rows_by_their_text(client: Browser, text: str, hits: int) -> None:
    lines: list[dict[str, Any]] = []
    for run in (await ids(client)).values():
        answer = await client.get(f"/api/runs/{run}/search", params={"q": text})
        lines += map(orjson.loads, answer.body.splitlines())
    assert sum("excerpt" in line for line in lines) == hits
    assert sum(line["hits"] for line in lines if "end" in line) == hits
    for line in lines:
        if "excerpt" in line:
            shown = orjson.dumps(text).decode()[1:-1]
            assert line["excerpt"][line["at"] :].lower().startswith(shown.lower())


async def test_failures_are_grouped_by_cause_and_peer(client: Browser) -> None:
    run = (await ids(client))["after"]
    groups = (await got(client, f"/api/runs/{run}/failures"))["groups"]
    assert [(group["server"], group["count"], group["remedy"]) for group in groups] == [
        ("engine", 2, "Wait."),
        ("judge", 1, "Wait."),
    ]
    start, length = groups[1]["rows"][0]
    answer = await client.get(f"/api/runs/{run}/rows/{start}-{length}", params={"kind": "failures"})
    assert answer.json()["_ng_task_index"] == 4


async def test_failures_of_rollouts_that_have_a_row_by_now_are_counted(
    client: Browser, tmp_path: Path
) -> None:
    run, rows = (await ids(client))["after"], tmp_path / "after" / "out.jsonl"

    async def count() -> list[tuple[str, int, int]]:
        groups = (await got(client, f"/api/runs/{run}/failures"))["groups"]
        return [(group["server"], group["count"], group["settled"]) for group in groups]

    assert await count() == [("engine", 2, 0), ("judge", 1, 0)]
    rows.write_bytes(rows.read_bytes() + orjson.dumps(row(5, 1, 1.0)) + b"\n")
    assert await count() == [("engine", 2, 0), ("judge", 1, 0)]  # another rollout of the task
    rows.write_bytes(rows.read_bytes() + orjson.dumps(row(5, 0, 1.0)) + b"\n")
    assert await count() == [("engine", 2, 1), ("judge", 1, 0)]


async def test_nodes_and_the_logs_that_they_name_are_answered(client: Browser, tmp_path: Path) -> None:
    runs = await ids(client)
    assert await got(client, f"/api/runs/{runs['before']}/nodes") == {"nodes": None}
    write_nodes(tmp_path / "after" / "out.jsonl")
    (tmp_path / "after" / "logs" / "other.log").write_text("secret")
    (tmp_path / "after" / "logs" / "policy.1.log").unlink()
    run = runs["after"]
    nodes = (await got(client, f"/api/runs/{run}/nodes"))["nodes"]
    assert [each["name"] for each in nodes["nodes"]] == ["node1", "node2"]
    for query in ({"file": "node_node2.log"}, {"file": "node_node2.log", "at": str(LOST_AT)}):
        log = await got(client, f"/api/runs/{run}/log", **query)
        assert log["lines"][0].endswith("a line of node_node2")
    early = await got(client, f"/api/runs/{run}/log", file="node_node2.log", at="1")
    assert early["lines"] == []
    for file in ("other.log", "policy.1.log", "../out.jsonl", "nodes.json"):
        assert (await client.get(f"/api/runs/{run}/log", params={"file": file})).status == 404


async def test_flags_name_their_rules_and_tasks(client: Browser) -> None:
    run = (await ids(client))["before"]
    answer = await got(client, f"/api/runs/{run}/flags")
    flags = {flag["name"]: flag for flag in answer["flags"]}
    assert answer["rows"] == 6
    assert flags["bad_reward"]["count"] == 0
    assert flags["no_variance"]["count"] == 3
    assert sorted(finding["task"] for finding in flags["no_variance"]["findings"]) == [0, 1, 2]


async def test_runs_are_ranked(client: Browser) -> None:
    runs = await ids(client)
    found = await got(client, "/api/rank", runs=f"{runs['before']},{runs['after']},{runs['before']}")
    assert len(found["models"]) == 2
    assert {"rank", "best", "worst"} == found["models"][0]["rank"].keys()
    assert found["plot"].startswith("<svg")
    assert (await client.get("/api/rank?runs=r99")).status == 404


async def test_two_runs_are_compared_by_task(client: Browser) -> None:
    runs = await ids(client)
    found = await got(client, "/api/compare", before=runs["before"], after=runs["after"])
    assert found["tasks"] == 3
    assert [(each["task_before"], each["difference"]) for each in found["changed"]] == [(0, 1.0), (2, 1.0)]


DAMAGED = {
    "torn at the end": b'{"torn',
    "no JSON": b"no row\n",
    "a list": b"[1]\n",
    "zeros": b"\0" * 20 + b"\n",
    "no UTF-8": b'{"_ng_task_index":8,"_ng_rollout_index":0,"x":"\xff"}\n',
    "without indices": b'{"_ng_task_index":"x","_ng_rollout_index":{}}\n',
    "too deep": b'{"_ng_task_index":9,"_ng_rollout_index":0,"x":' + b"[" * 5000 + b"]" * 5000 + b"}\n",
}
ROUTES = (
    "",
    "/failures",
    "/nodes",
    "/flags",
    "/blocks",
    "/blocks?kind=failures",
    "/search?q=yes",
    "/search?q=a&kind=failures",
)


@pytest.mark.parametrize("case", DAMAGED)
@pytest.mark.parametrize("name", ["out.jsonl", "out_failures.jsonl", "out_materialized_inputs.jsonl"])
async def test_a_damaged_line_is_left_out_and_named(
    client: Browser, tmp_path: Path, case: str, name: str
) -> None:
    damaged = tmp_path / "after" / name
    lines = damaged.read_bytes().count(b"\n") if damaged.exists() else 0
    with damaged.open("ab") as file:
        file.write(DAMAGED[case])
    runs = await ids(client)
    found = await got(client, "/api/compare", before=runs["before"], after=runs["after"])
    assert found["tasks"] == 3
    assert found["unreadable"] == len(found["problems"]) == 1
    assert found["problems"][0].startswith(f"{damaged}:{lines + 1}: ")
    for route in ROUTES:
        assert (await client.get(f"/api/runs/{runs['after']}{route}")).status == 200, route


async def test_a_row_with_half_a_character_is_compared(client: Browser, tmp_path: Path) -> None:
    for name in ("before", "after"):
        with (tmp_path / name / "out.jsonl").open("ab") as file:
            file.write(orjson.dumps(row(7, 0, 1.0, "HALF")).replace(b"HALF", b"\\ud800") + b"\n")
    runs = await ids(client)
    found = await got(client, "/api/compare", before=runs["before"], after=runs["after"])
    assert (found["tasks"], found["unreadable"]) == (4, 0)


async def test_a_damaged_compressed_file_is_no_error_of_the_viewer(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole" / "out.jsonl", tmp_path / "cut" / "out.jsonl.gz"
    write(whole, [row(0, 0, 1.0)])
    cut.parent.mkdir()
    cut.write_bytes(gzip.compress(whole.read_bytes() * 1000)[:-20])
    viewer = Viewer(find_runs([whole, cut]))
    async with browsing(make_app(viewer)) as client:
        runs = await ids(client)
        answer = await client.get("/api/compare?before=r0&after=r1")
        assert len(runs) == 2
        assert answer.status == 422
        assert "is damaged" in answer.json()["error"]["message"]
    await viewer.close()


async def test_rows_without_tokens_say_so(client: Browser) -> None:
    run = (await ids(client))["after"]
    place = (await places(client, run))[0]
    answer = await client.get(f"/api/runs/{run}/tokens/{place}")
    assert answer.status == 404
    assert answer.json()["error"]["code"] == "no_tokens"
    assert (await client.get("/api/runs/r9/blocks")).status == 404


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".zst", zstandard.compress)])
async def test_a_compressed_file_is_searched_like_a_plain_one(
    tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    plain = tmp_path / "plain" / "out.jsonl"
    write(plain, [row(task, 0, 1.0, f"answer {task % 3}") for task in range(50)])
    packed = tmp_path / f"packed.jsonl{ending}"
    packed.write_bytes(pack(plain.read_bytes()))
    viewer = Viewer(find_runs([plain, packed]))
    async with browsing(make_app(viewer)) as client:
        answers = [
            await client.get(f"/api/runs/{run.id}/search", params={"q": "ANSWER 1"})
            for run in viewer.runs.list_runs()
        ]
    await viewer.close()
    found = [
        [line for line in map(orjson.loads, answer.body.splitlines()) if "start" in line]
        for answer in answers
    ]
    assert found[0] == found[1]
    assert len(found[0]) == 17
