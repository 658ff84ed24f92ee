"""Finding the running gym."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from nemo_gym.discovery_files import DISCOVERY_FILE, discovery_path
from nemo_gym.failures import ConfigError
from nemo_gym.launch.records import RunRecord, write_discovery
from nemo_gym.names import CODE_KEY
from nemo_gym.rollouts.run.discovery import DiscoveredGym, ask_head, find_gym, find_gym_with
from nemo_gym.transport import InMemoryTransport

CONFIG: dict[str, Any] = {
    "head_server": {"host": "127.0.0.1", "port": 9},
    "agent": {"responses_api_agents": {"simple": {"host": "127.0.0.1", "port": 4000}}},
}


def answering(status: int, body: bytes) -> Any:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["path"] == "/global_config_dict_yaml"
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    return app


async def test_the_gym_of_this_folder_is_found_with_its_token(tmp_path: Path) -> None:
    write_discovery(tmp_path, CONFIG, RunRecord(1, "the-token-of-the-run", "now", "http://127.0.0.1:9"))
    gym = await find_gym(tmp_path)
    assert gym.token == "the-token-of-the-run"
    assert gym.config == CONFIG
    assert gym.caller().directory.replicas("agent") == ("http://127.0.0.1:4000",)


async def test_one_of_several_gyms_of_a_folder_is_found_by_its_name(tmp_path: Path) -> None:
    write_discovery(tmp_path, CONFIG, RunRecord(1, "first", "now", "http://127.0.0.1:9"))
    other = {**CONFIG, "head_server": {"host": "127.0.0.1", "port": 10}}
    write_discovery(tmp_path, other, RunRecord(1, "second", "now", "http://127.0.0.1:10"), "math")
    assert (await find_gym(tmp_path)).token == "first"
    assert (await find_gym(tmp_path, name="math")).token == "second"


def test_an_agent_of_another_gym_of_the_folder_is_found(tmp_path: Path) -> None:
    runs = RunRecord(os.getpid(), "token", "now", "http://127.0.0.1:9")
    child = subprocess.Popen(["true"])
    child.wait()
    ended = RunRecord(child.pid, "token", "now", "http://127.0.0.1:9")
    other = {"math_agent": CONFIG["agent"], "mcqa": {"resources_servers": {"mcqa": {}}}}
    write_discovery(tmp_path, {"ended_agent": CONFIG["agent"]}, ended, "old")
    discovery_path(tmp_path, "damaged").write_text("{")
    write_discovery(tmp_path, CONFIG, runs)
    write_discovery(tmp_path, other, runs, "math")
    assert "--discovery-name math" in (find_gym_with(tmp_path, "math_agent") or "")
    assert "no discovery name" in (find_gym_with(tmp_path, "agent") or "")
    for name in ("mcqa", "ended_agent", "unknown"):
        assert find_gym_with(tmp_path, name) is None


async def test_a_head_server_answers_its_configuration() -> None:
    body = orjson.dumps(yaml.safe_dump(CONFIG))
    transport = InMemoryTransport({"http://head:1": answering(200, body)})
    assert await ask_head("http://head:1", transport) == CONFIG


@pytest.mark.parametrize(
    "app",
    [
        answering(404, b"{}"),
        answering(200, b"<html>"),
        answering(200, b'"[1, 2]"'),
        answering(200, b'"a: ["'),
    ],
)
async def test_what_is_no_head_server_is_not_believed(app: Any) -> None:
    with pytest.raises(ConfigError, match="http://head:1"):
        await ask_head("http://head:1", InMemoryTransport({"http://head:1": app}))


async def test_without_a_gym_the_remedy_is_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        await find_gym(tmp_path, host="127.0.0.1", port=9)
    assert "ng_run" in str(caught.value)


async def test_a_gym_of_another_folder_is_not_used_unasked(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        await find_gym(tmp_path)
    assert caught.value.failure.code == "no_gym_here"
    assert str(tmp_path) in caught.value.failure.message
    assert "--head HOST:PORT" in (caught.value.failure.remedy or "")


@pytest.fixture
def ended() -> int:
    """The pid of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


async def test_the_file_of_a_gym_that_was_killed_is_no_gym(tmp_path: Path, ended: int) -> None:
    write_discovery(tmp_path, CONFIG, RunRecord(ended, "t", "now", "http://127.0.0.1:9"))
    with pytest.raises(ConfigError) as caught:
        await find_gym(tmp_path)
    assert caught.value.failure.code == "no_gym_here"


@pytest.mark.parametrize(("accepted", "is_found"), [("the-token", True), ("of another gym", False)])
async def test_a_gym_of_another_machine_is_known_by_its_token(
    tmp_path: Path, ended: int, accepted: str, is_found: bool
) -> None:
    """Its process is not on this machine, and its folder is shared."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        status = b"200 OK" if f"x-ng-token: {accepted}\r\n".encode() in head else b"401 X"
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: 2\r\n\r\n[]" % status)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        write_discovery(tmp_path, CONFIG, RunRecord(ended, "the-token", "now", f"http://127.0.0.1:{port}"))
        if is_found:
            assert (await find_gym(tmp_path)).token == "the-token"
        else:
            with pytest.raises(ConfigError, match="no gym runs in this folder"):
                await find_gym(tmp_path)


def test_the_repository_of_a_gym_is_that_of_its_configuration() -> None:
    told = {"commit": "0123", "dirty": True}
    assert DiscoveredGym({CODE_KEY: {"repository": told}}).repository == told
    assert DiscoveredGym({CODE_KEY: {"repository": None}}).repository is None
    assert DiscoveredGym({}).repository is None


async def test_a_damaged_discovery_file_is_named(tmp_path: Path) -> None:
    (tmp_path / DISCOVERY_FILE).write_text("a: [")
    with pytest.raises(ConfigError, match="nemo_gym_global_config"):
        await find_gym(tmp_path)


async def test_a_head_server_that_needs_the_token_gets_it_and_says_so() -> None:
    sent = []

    async def head(scope: Any, receive: Any, send: Any) -> None:
        sent.append(dict(scope["headers"]).get(b"x-ng-token"))
        await answering(401 if sent[-1] is None else 200, orjson.dumps(yaml.safe_dump(CONFIG)))(
            scope, receive, send
        )

    assert await ask_head("http://head:1", InMemoryTransport({"http://head:1": head}), token="t") == CONFIG
    assert sent == [b"t"]
    with pytest.raises(ConfigError, match=r"requires its token.*run_token"):
        await ask_head("http://head:1", InMemoryTransport({"http://head:1": head}))
