from __future__ import annotations

import io
import os
from dataclasses import replace

from rich.console import Console

from nemo_gym.launch.observation import Observation, memory_bytes, observe
from nemo_gym.launch.probe import Figures
from nemo_gym.launch.records import GymRecord, RunRecord, ServerRecord
from nemo_gym.launch.sockets import hold
from nemo_gym.launch.table import server_table
from tests.launch.test_probe import answering

RUN = RunRecord(os.getpid(), "token", "2026-01-01T00:00:00+00:00", "http://127.0.0.1:1")


def a_server(url: str, state: str = "ready") -> ServerRecord:
    return ServerRecord("env", "resources_servers", "env", 0, url, state, os.getpid(), 0, "env.log")


async def test_servers_with_figures_without_and_without_an_answer() -> None:
    body = b'{"requests": 7, "errors": 1, "in_flight": 2}'
    nobody = hold("127.0.0.1", 0, holder_of="nobody")
    async with (
        answering(b"HTTP/1.1 200 OK\r\n\r\n" + body) as telling,
        answering(b"HTTP/1.1 404 Not Found\r\n\r\n") as plain,
    ):
        servers = (a_server(telling), a_server(plain), a_server(nobody.url))
        seen = await observe(GymRecord(RUN, "/somewhere", servers), timeout_s=2)
    nobody.close()
    assert [each.figures for each in seen] == [Figures(7, 1, 2), None, None]
    assert [each.answers for each in seen] == [True, True, False]
    assert [each.state for each in seen] == ["ready", "ready", "silent"]
    assert seen[0].memory_bytes is not None
    assert seen[0].memory_bytes > 1_000_000


def test_a_server_that_is_known_to_be_down_is_not_called_silent() -> None:
    assert Observation(a_server("http://x", "crashed"), False, None, None).state == "crashed"


def test_the_memory_of_a_process_that_is_gone_is_unknown() -> None:
    assert memory_bytes(None) is None
    assert memory_bytes(2**22 + 1) is None


def test_the_table_has_a_row_per_replica_with_what_is_known() -> None:
    first = Observation(a_server("http://127.0.0.1:1"), True, Figures(1234, 2, 3), 30_000_000)
    second = Observation(replace(first.server, replica=1, restarts=1), False, None, None)
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(server_table([first, second]))
    lines = console.export_text().splitlines()
    assert " ".join(lines[0].split()) == "server kind url state requests errors in flight memory restarts"
    assert " ".join(lines[1].split()) == "env #0 resources http://127.0.0.1:1 ready 1,234 2 3 30 MB 0"
    assert " ".join(lines[2].split()) == "env #1 resources http://127.0.0.1:1 silent - - - - 1"
    assert lines[3].startswith("30 MB in all servers")
