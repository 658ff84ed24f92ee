"""The adapter of Open Reward Standard in its sandbox, at a server of this test (tests/foreign has the real one)."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from nemo_gym.failures import ForeignError
from nemo_gym.sources.foreign.environment import build_program
from nemo_gym.sources.foreign.pool import HostPool
from nemo_gym.sources.foreign.rows import list_environment

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

TOOL = {"name": "pay", "description": "Pay.", "input_schema": None}
ANSWERS: dict[str, Any] = {
    "/list_environments": ["shop", "bank"],
    "/shop/tools": {"tools": [TOOL]},
    "/shop/splits": [{"name": "train", "type": "train"}],
    "/shop/num_tasks": {"num_tasks": 250},
    "/create": {"sid": "s1"},
    "/shop/prompt": [{"type": "text", "text": "Buy tea."}],
    "/delete": {},
    "/delete_session": {},
}
"""An older server: it has neither `/version`, `/shop/messages` nor `/shop/task_tools`."""


class Shop(BaseHTTPRequestHandler):
    """Answers as a server of Open Reward Standard; `pay` with `{"reward": …}` gives that reward."""

    asked: list[tuple[str, Any, str | None]]

    def do_GET(self) -> None:
        self._answer(None)

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        self._answer(json.loads(self.rfile.read(length) or b"null"))

    def _answer(self, body: Any) -> None:
        self.asked.append((self.path, body, self.headers.get("X-Session-ID")))
        if self.path == "/create_session":
            self._send(200, "event: task_id\ndata: s1\n\nevent: end\ndata: \n\n")
        elif self.path == "/shop/call":
            output = {"blocks": [{"type": "text", "text": "paid"}], "finished": False, **body["input"]}
            told = json.dumps({"ok": True, "output": output})
            self._send(200, f"event: task_id\ndata: t\n\n: ping\n\nevent: end\ndata: {told}\n\n")
        elif self.path == "/shop/task_range":
            self._send(200, json.dumps({"tasks": [{"n": n} for n in range(body["start"], body["stop"])]}))
        elif self.path in ANSWERS:
            self._send(200, json.dumps(ANSWERS[self.path]))
        else:
            self._send(404, json.dumps({"detail": "Not Found"}))

    def _send(self, status: int, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *given: Any) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[tuple[str, list[tuple[str, Any, str | None]]]]:
    """Return the URL of a server, and what it was asked."""
    asked: list[tuple[str, Any, str | None]] = []
    handler = type("OwnShop", (Shop,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


async def test_tasks_come_in_pages_and_name_the_server(shop: tuple[str, list[Any]]) -> None:
    url, asked = shop
    listing = await list_environment(build_program(f"ors:{url}", {}), 230)
    assert [task["data"]["spec"]["n"] for task in listing.tasks] == list(range(230))
    assert [body for path, body, _ in asked if path == "/shop/task_range"][2] == {
        "split": "train",
        "start": 200,
        "stop": 230,
    }
    assert (listing.about["name"], listing.about["source"], listing.about["version"]) == ("shop", url, None)
    row = listing.build_rows("ors", None, None, 0)[0]
    assert row["foreign"]["split"] == "train"


async def play(url: str, *rewards: Any) -> list[dict[str, Any]]:
    """Return the moves of an attempt that pays with these rewards, the last of which ends it."""
    pool = HostPool(build_program(f"ors:{url}", {}), 1)
    try:
        host = await pool.acquire()
        task = {"id": "x", "data": {"spec": {"n": 7}}}
        moves = [await host.ask("open", {"task": task, "seed": 0}, deadline_s=60)]
        for number, reward in enumerate(rewards):
            given = {"reward": reward, "finished": number == len(rewards) - 1}
            call = {"call_id": "c", "name": "pay", "arguments": json.dumps(given)}
            fields = {"seat": 0, "text": "", "calls": [call]}
            moves.append(await host.ask("step", fields, deadline_s=60))
        await host.ask("close", {}, deadline_s=60)
        return moves
    finally:
        await pool.close()


async def test_an_attempt_is_a_session_whose_rewards_are_summed(shop: tuple[str, list[Any]]) -> None:
    url, asked = shop
    opened, *moves = await play(url, 0.5, None, 0.25, None)
    opening = opened["info"]["opening"]
    assert opening["input"][0]["content"] == [{"type": "input_text", "text": "Buy tea."}]
    assert [tool["name"] for tool in opening["tools"]] == ["pay"]
    assert [move["reward"] for move in moves] == [0.5, None, 0.25, None]
    assert [move["done"] for move in moves] == [False, False, False, True]
    paths = {path: (body, session) for path, body, session in asked}
    assert paths["/create"] == ({"env_name": "shop", "task_spec": {"n": 7}}, "s1")
    assert paths["/delete"] == (None, "s1")


async def test_an_attempt_without_any_reward_has_none(shop: tuple[str, list[Any]]) -> None:
    _, *moves = await play(shop[0], None, None)
    assert [move["reward"] for move in moves] == [None, None]
    assert moves[-1]["done"]


async def test_a_reward_that_is_no_number_is_an_error(shop: tuple[str, list[Any]]) -> None:
    with pytest.raises(Exception, match="the reward of a call of pay is 'much'"):
        await play(shop[0], "much")


async def test_a_server_that_is_gone_is_an_error_of_the_environment(shop: tuple[str, list[Any]]) -> None:
    with pytest.raises(ForeignError, match="cannot be reached"):
        await play("http://127.0.0.1:1", 1.0)
