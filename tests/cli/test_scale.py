"""`ng_scale`: what it prints, and its exit codes, with a head server that this test plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from nemo_gym.cli.command import ExitCode
from nemo_gym.cli.scale import COMMAND, scale
from nemo_gym.failures import ConfigError
from nemo_gym.launch.errors import LaunchError
from nemo_gym.processes.event_loop_thread import EventLoopThread

ANSWER = {
    "version": 4,
    "servers": {
        "env": {"before": 2, "after": 4, "lost_sessions": []},
        "agent": {"before": 12, "after": 1, "lost_sessions": [f"task-{n}" for n in range(11)]},
    },
}


class Head:
    """A head server with one answer to `POST /_ng/scale`."""

    def __init__(self, status: int, answer: Any) -> None:
        self._status = status
        self._answer = answer
        self.port = 0
        self.asked = b""

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        status, answer = self._status, self._answer
        if head.startswith(b"GET /global_config_dict_yaml"):
            status, answer = 200, f"head_server: {{host: 127.0.0.1, port: {self.port}}}"
        else:
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            self.asked = head + await reader.readexactly(length)
        body = json.dumps(answer).encode()
        writer.write(
            b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (status, len(body), body)
        )
        await writer.drain()
        writer.close()


@contextmanager
def head(status: int, answer: Any) -> Iterator[Head]:
    played = Head(status, answer)
    with EventLoopThread("head") as loop:
        server = loop.run(played.start())

        async def close() -> None:
            server.close()

        yield played
        loop.run(close())


def run(played: Head, *words: str) -> int:
    address = (f"+head_server.port={played.port}", "+run_token=a-token-of-this-run")
    return COMMAND.run(["+servers.env=4", "+servers.agent=1", *address, *words], scale)


def test_the_replicas_and_the_lost_sessions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with head(200, ANSWER) as played:
        assert run(played, "+drain_timeout_s=30") == ExitCode.COMPLETE
    assert capsys.readouterr().out.splitlines() == [
        "env: 4 replicas, before 2",
        "agent: 1 replica, before 12",
        "agent: 11 sessions were lost, whose rollouts are attempted again: "
        + ", ".join(f"task-{n}" for n in range(10))
        + ", …",
    ]
    assert b"x-ng-token: a-token-of-this-run" in played.asked.lower()
    body = json.loads(played.asked.partition(b"\r\n\r\n")[2])
    assert body == {"servers": {"env": 4, "agent": 1}, "drain_timeout_s": 30.0}


def test_json_is_the_answer_of_the_head_server(capsys: pytest.CaptureFixture[str]) -> None:
    with head(200, ANSWER) as played:
        assert run(played, "+json=true") == ExitCode.COMPLETE
    assert json.loads(capsys.readouterr().out) == ANSWER


@pytest.mark.parametrize(
    ("status", "error", "code"),
    [
        (
            409,
            ConfigError("no server is named en.", code="x", remedy="Did you mean env?"),
            ExitCode.BAD_INPUT,
        ),
        (500, LaunchError("it died at its start", code="died_at_start"), ExitCode.FATAL),
    ],
)
def test_a_refusal_and_a_failure_have_their_own_exit_codes(
    status: int, error: ConfigError, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with head(status, error.failure.to_wire()) as played:
        assert run(played) == code
    assert error.failure.message in capsys.readouterr().err


def test_an_answer_of_another_server_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with head(404, {"detail": "Not Found"}) as played:
        assert run(played) == ExitCode.BAD_INPUT
    assert "HTTP 404" in capsys.readouterr().err
