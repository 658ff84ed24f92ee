from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from nemo_gym.launch.observation import (
    Figures,
    Observation,
    ToolFigures,
    answers,
    describe_running_gyms,
    get_figures,
    memory_bytes,
    observe,
    sum_by_node,
)
from nemo_gym.launch.records import GymRecord, NodeRecord, Registry, RunRecord
from nemo_gym.launch.sockets import hold
from tests.launch.observed import RUN, a_server


@asynccontextmanager
async def answering(raw: bytes, seen: list[bytes] | None = None) -> AsyncIterator[str]:
    """The URL of a server that answers every request with `raw` and disconnects."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if seen is not None:
            seen.append(head)
        writer.write(raw)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_servers_with_figures_without_and_without_an_answer() -> None:
    body = b'{"requests": 7, "errors": 1, "in_flight": 2}'
    silent = hold("127.0.0.1", 0, holder_of="other")
    async with (
        answering(b"HTTP/1.1 200 OK\r\n\r\n" + body) as telling,
        answering(b"HTTP/1.1 404 Not Found\r\n\r\n") as plain,
    ):
        servers = (a_server(telling), a_server(plain), a_server(silent.url))
        seen = await observe(GymRecord(RUN, "/somewhere", servers), timeout_s=2)
    silent.close()
    assert [each.figures for each in seen] == [Figures(7, 1, 2), None, None]
    assert [each.answers for each in seen] == [True, True, False]
    assert [each.state for each in seen] == ["ready", "ready", "silent"]
    assert seen[0].memory_bytes is not None
    assert seen[0].memory_bytes > 1_000_000


async def test_the_figures_of_tools_are_read_and_shown_as_json() -> None:
    tool = {"calls": 24, "errors": 24, "cause": "ValueError: boom", "place": "app.py:48", "seconds": 1.2}
    verify = {"calls": 4, "seconds": 8.0, "errors": 0, "cause": None, "place": None}
    counts = {"requests": 30, "errors": 24, "in_flight": 2, "seconds": 14.0}
    body = orjson.dumps({**counts, "tools": {"guess": tool}, "verify": verify})
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n" + body) as url:
        figures = await get_figures(url, "token", timeout_s=5)
    assert figures is not None
    assert figures.tools == {"guess": ToolFigures(24, 24, "ValueError: boom", "app.py:48", 1.2)}
    assert (figures.verify or ToolFigures(0, 0)).mean_seconds == 2.0
    assert figures.mean_seconds == 0.5, "requests that have no answer yet do not count"
    shown = Observation(a_server("http://x"), True, figures, None).to_json()
    assert shown["figures"]["tools"] == {"guess": tool}
    assert shown["figures"]["verify"] == verify


@pytest.mark.parametrize("tools", [b"[]", b'{"guess": 1}', b'{"guess": {"calls": "x", "errors": 0}}'])
async def test_figures_of_tools_in_another_form_are_those_of_a_custom_route(tools: bytes) -> None:
    body = b'{"requests": 1, "errors": 0, "in_flight": 0, "tools": ' + tools + b"}"
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n" + body) as url:
        assert await get_figures(url, "token", timeout_s=5) is None


def test_the_servers_of_a_machine_are_summed() -> None:
    nodes = (NodeRecord("a", "up", 0.5, 0, "10.0.0.1", "a.log"), NodeRecord("b", "lost", 0.0, 1))
    servers = [replace(a_server("http://x"), node=node, restarts=2) for node in ("a", "a", "")]
    seen = [
        Observation(server, True, figures, None)
        for server, figures in zip(servers, (Figures(9, 0, 3), None, Figures(9, 0, 5)), strict=True)
    ]
    found = sum_by_node(GymRecord(RUN, "/somewhere", tuple(servers), nodes=nodes), seen)
    assert [each.to_json() for each in found] == [
        {
            "name": "a",
            "state": "up",
            "load": 0.5,
            "losses": 0,
            "address": "10.0.0.1",
            "log": "a.log",
            "replicas": 2,
            "in_flight": 3,
            "restarts": 4,
        },
        {
            "name": "b",
            "state": "lost",
            "load": 0.0,
            "losses": 1,
            "address": "",
            "log": "",
            "replicas": 0,
            "in_flight": 0,
            "restarts": 0,
        },
    ]


def test_a_crashed_server_is_not_silent() -> None:
    assert Observation(a_server("http://x", "crashed"), False, None, None).state == "crashed"


def test_an_ended_process_has_no_memory_figure() -> None:
    assert memory_bytes(None) is None
    assert memory_bytes(2**22 + 1) is None


async def test_counters_are_requested_with_the_token() -> None:
    seen: list[bytes] = []
    body = b'{"requests": 7, "errors": 1, "in_flight": 2, "more": 0}'
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n" + body, seen) as url:
        assert await get_figures(url, "secret", timeout_s=30) == Figures(7, 1, 2)
    assert seen[0].startswith(b"GET /_ng/stats HTTP/1.1\r\n")
    assert b"\r\nx-ng-token: secret\r\n" in seen[0]


@pytest.mark.parametrize(
    "raw", [b"HTTP/1.1 404 Not Found\r\n\r\n{}", b"HTTP/1.1 200 OK\r\n\r\n[1]", b"nonsense"]
)
async def test_a_server_without_counters_has_none(raw: bytes) -> None:
    async with answering(raw) as url:
        assert await get_figures(url, "secret", timeout_s=30) is None


@pytest.mark.parametrize("status", ["200 OK", "307 Temporary Redirect", "404 Not Found"])
async def test_any_status_below_500_counts_as_an_answer(status: str) -> None:
    async with answering(f"HTTP/1.1 {status}\r\n\r\n".encode()) as url:
        assert await answers(url, timeout_s=30)


@pytest.mark.parametrize("raw", [b"HTTP/1.1 503 Busy\r\n\r\n", b"", b"nonsense\r\n"])
async def test_a_server_error_does_not_count_as_an_answer(raw: bytes) -> None:
    async with answering(raw) as url:
        assert not await answers(url, timeout_s=30)


async def test_a_silent_server_does_not_answer() -> None:
    held = hold("127.0.0.1", 0, holder_of="other")
    assert not await answers(held.url, timeout_s=0.05)
    held.close()


async def test_a_server_at_the_default_port_that_is_of_no_gym_is_described(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 X\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        monkeypatch.setattr("nemo_gym.launch.observation.DEFAULT_HEAD_SERVER_PORT", port)
        (described,) = await describe_running_gyms()
        assert described == (
            f"a server that is of no gym of this user answers at http://127.0.0.1:{port}; it is not used"
        )
        run = RunRecord(os.getpid(), "t", "now", f"http://127.0.0.1:{port}")
        Registry().write(GymRecord(run, "/elsewhere", ()))
        (described,) = await describe_running_gyms()
        assert described.startswith(f"the gym of pid {os.getpid()} in /elsewhere listens at")
