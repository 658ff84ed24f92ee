"""A run that goes on is controlled from its page alone, and only at an address on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from nemo_gym.rollouts.control.endpoint import serve_control
from nemo_gym.rollouts.control.run_control import RunControl
from nemo_gym.rollouts.control.verbs import Phase
from nemo_gym.viewer.access import GuardedApp
from nemo_gym.viewer.controlling import CONTROL_PATH, find_control
from nemo_gym.viewer.finding import find_runs
from nemo_gym.viewer.server import Viewer, make_app
from tests.rollouts.control.controlled import build_controlled
from tests.rollouts.doubles import Agents
from tests.viewer.browsing import Browser, browsing

ROWS = '{"_ng_task_index": 0, "_ng_rollout_index": 0, "reward": 1.0}\n'


@asynccontextmanager
async def controlled_page(folder: Path) -> AsyncIterator[tuple[Browser, str, RunControl]]:
    """A browser with the cookie of a viewer, the path of a run's control, and that control."""
    rows = folder / "out.jsonl"
    rows.write_text(ROWS)
    run = build_controlled(Agents(), 2)
    run.control.name = "out"
    viewer = Viewer(find_runs([rows]))
    guarded = GuardedApp(make_app(viewer), CONTROL_PATH)
    async with serve_control(run.control, folder / "out_control.json"), browsing(guarded) as client:
        await client.get("/", params={"token": guarded.token})
        (listed,) = (await client.get("/api/runs")).json()["runs"]
        yield client, f"/api/runs/{listed['id']}/control", run.control
    await viewer.close()


async def post(client: Browser, path: str, body: Any = None, **headers: str) -> Any:
    own = {"origin": f"http://127.0.0.1:{client.port}", "content-type": "application/json"}
    return await client.send("POST", path, data=json.dumps(body or {}), headers={**own, **headers})


async def test_a_run_is_looked_at_tried_and_paused(tmp_path: Path) -> None:
    async with controlled_page(tmp_path) as (client, path, control):
        assert (await client.get(path)).json()["state"]["phase"] == "running"
        tried = (await post(client, f"{path}/pause", {"dry_run": True})).json()
        assert (tried["phase"], len(tried["changes"])) == ("running", 1)
        assert control.read_state().phase is Phase.RUNNING
        assert (await post(client, f"{path}/pause")).json()["phase"] == "paused"
        assert [event["by"] for event in control.events] == ["gym view"]
        refused = await post(client, f"{path}/cancel", {"rollouts": ["7/0"]})
        assert (refused.status, refused.json()["error"]["code"]) == (409, "not_in_flight")
        assert (await post(client, f"{path}/stop")).status == 404
        assert (await post(client, f"{path}/set", [1])).status == 422


async def test_only_the_page_of_the_viewer_controls_a_run(tmp_path: Path) -> None:
    async with controlled_page(tmp_path) as (client, path, control):
        pause = f"{path}/pause"
        for origin in ("https://evil.example", "http://127.0.0.1:1", "null"):
            assert (await post(client, pause, origin=origin)).status == 403, origin
        without = await client.send("POST", pause, data="{}", headers={"content-type": "application/json"})
        assert without.status == 403, "a browser names the origin of every such request"
        assert (await post(client, pause, **{"content-type": "text/plain"})).status == 415
        async with ClientSession() as stranger:
            url = f"http://127.0.0.1:{client.port}{pause}"
            own = {"origin": f"http://127.0.0.1:{client.port}"}
            async with stranger.post(url, json={}, headers=own) as answer:
                assert answer.status == 401, "without the cookie"
        assert (await post(client, "/api/runs")).status == 405
        assert control.read_state().phase is Phase.RUNNING
        assert control.events == []


async def test_a_run_that_has_ended_has_no_state_and_takes_no_verb(tmp_path: Path) -> None:
    async with controlled_page(tmp_path) as (client, path, _):
        (tmp_path / "out_control.json").unlink()
        assert (await client.get(path)).json() == {"state": None}
        refused = await post(client, f"{path}/pause")
        assert (refused.status, refused.json()["error"]["code"]) == (409, "no_run")


async def test_a_file_of_a_hostile_folder_sends_the_viewer_nowhere(tmp_path: Path) -> None:
    async with controlled_page(tmp_path) as (_, _, _):
        (run,) = find_runs([tmp_path / "out.jsonl"])
        announced = tmp_path / "out_control.json"
        told = json.loads(announced.read_bytes())
        assert find_control(run) is not None
        for url in (
            "http://evil.example:80",
            "http://127.0.0.1@evil.example",
            "file:///etc/passwd",
            "http://10.0.0.1:1",
        ):
            announced.write_text(json.dumps({**told, "url": url}))
            assert find_control(run) is None, url
        elsewhere = tmp_path / "elsewhere.json"
        elsewhere.write_text(json.dumps(told))
        announced.unlink()
        announced.symlink_to(elsewhere)
        assert find_control(run) is None, "a link"
        announced.unlink()
        announced.write_text("{")
        assert find_control(run) is None


async def test_the_run_s_name_is_one_part_of_the_path(tmp_path: Path) -> None:
    asked: list[str] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readline()).decode())
        writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with controlled_page(tmp_path) as (client, path, _):
        server = await asyncio.start_server(note, "127.0.0.1", 0)
        announced = tmp_path / "out_control.json"
        told = json.loads(announced.read_bytes())
        port = server.sockets[0].getsockname()[1]
        announced.write_text(json.dumps({**told, "url": f"http://127.0.0.1:{port}", "run": "../../other"}))
        assert (await client.get(path)).json() == {"state": None}
        server.close()
        await server.wait_closed()
    assert asked == ["GET /_ng/runs/..%2F..%2Fother HTTP/1.1\r\n"]


@pytest.mark.parametrize("verb", ["pause", "drain"])
async def test_the_page_answers_as_the_run_does(verb: str, tmp_path: Path) -> None:
    async with controlled_page(tmp_path) as (client, path, control):
        answer = (await post(client, f"{path}/{verb}")).json()
        assert answer["changes"]
        assert {**answer, "changes": None, "verb": None, "dry_run": None} == {
            **json.loads(json.dumps(control.describe())),
            "changes": None,
            "verb": None,
            "dry_run": None,
        }
