"""A server that an environment asks: statuses, streams that break, and requests that must not be made twice."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_gym.sources.foreign.host import remote
from nemo_gym.sources.foreign.host.faults import HostError
from nemo_gym.sources.foreign.host.remote import Remote

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


class ScriptedServer:
    """Gives one answer to each connection, in turn, and keeps the requests."""

    def __init__(self, listening: socket.socket) -> None:
        self.answers: list[bytes] = []
        self.asked: list[str] = []
        self._listening = listening
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:  # the test is over
                return
            with connection:
                self.asked.append(read_request(connection))
                if self.answers:
                    connection.sendall(self.answers.pop(0))


def read_request(connection: socket.socket) -> str:
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(1 << 16)
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    length = int(lengths[0].split(b":")[1]) if lengths else 0
    while len(body) < length:
        body += connection.recv(1 << 16)
    return (head + b"\r\n\r\n" + body).decode()


def answer(status: int, body: str, header: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{header}\r\n{body}".encode()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield ScriptedServer(listening)


@pytest.fixture
def asked(server: ScriptedServer) -> Remote:
    host, port = server._listening.getsockname()
    return Remote(f"http://{host}:{port}/base/")


def test_json_is_answered_below_the_path_of_the_url(server: ScriptedServer, asked: Remote) -> None:
    server.answers = [answer(200, '["a"]'), answer(200, "{}")]
    assert asked.ask("GET", "/list") == ["a"]
    assert asked.ask("POST", "/make", {"n": 1}, {"X-Session-ID": "s"}) == {}
    assert server.asked[0].startswith("GET /base/list HTTP/1.1\r\n")
    assert "\r\nHost: 127.0.0.1:" in server.asked[0]
    assert "X-Session-ID: s\r\n" in server.asked[1]
    assert server.asked[1].endswith('\r\n\r\n{"n": 1}')


@pytest.mark.parametrize(
    ("status", "code", "is_retryable"),
    [
        (404, "not_found", False),
        (401, "unsupported", False),
        (400, "environment_error", False),
        (500, "environment_error", True),
        (410, "environment_error", True),
        (308, "environment_error", False),
    ],
)
def test_a_status_is_an_error_with_the_servers_words(
    status: int, code: str, is_retryable: bool, server: ScriptedServer, asked: Remote
) -> None:
    server.answers = [answer(status, '{"detail": "no such split"}')]
    with pytest.raises(HostError, match=f"/task answered {status}: no such split") as raised:
        asked.ask("POST", "/task", {})
    assert (raised.value.code, raised.value.retryable) == (code, is_retryable)


def test_an_answer_that_is_no_json_is_told(server: ScriptedServer, asked: Remote) -> None:
    server.answers = [answer(200, "<html>")]
    with pytest.raises(HostError, match="did not answer with JSON"):
        asked.ask("GET", "/list")


def test_a_server_that_starts_is_asked_again(
    server: ScriptedServer, asked: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_STARTING_S", 0.0)
    starting = answer(503, "", "X-Backend-State: starting\r\n")
    server.answers = [starting, starting, answer(200, "1"), answer(503, "busy")]
    assert asked.ask("POST", "/create", {}) == 1
    with pytest.raises(HostError, match="503: busy"):
        asked.ask("GET", "/other")
    assert len(server.asked) == 4


def test_a_request_without_an_answer_is_not_sent_again(server: ScriptedServer, asked: Remote) -> None:
    server.answers = [b""]
    with pytest.raises(HostError, match="/call did not answer") as raised:
        asked.ask("POST", "/call", {})
    assert raised.value.retryable
    assert len(server.asked) == 1


def test_a_stream_is_put_together(server: ScriptedServer, asked: Remote) -> None:
    events = (
        b"event: task_id\r\ndata: t1\r\n\r\n: ping\r\n\r\n"
        b'event: chunk\r\ndata: {"text":\r\n\r\nevent: end\r\ndata:  "x"}\r\n\r\n'
    )
    server.answers = [STREAM + events]
    assert asked.follow("/call", {"name": "x"}, {}) == ('{"text": "x"}', "t1")


def test_a_stream_that_breaks_goes_on_by_its_task(server: ScriptedServer, asked: Remote) -> None:
    begun = STREAM + b"event: task_id\ndata: t1\n\nevent: chunk\ndata: lost\n\n"
    server.answers = [begun, STREAM + b"event: task_id\ndata: t1\n\nevent: end\ndata: all\n\n"]
    assert asked.follow("/call", {"name": "x"}, {}) == ("all", "t1")
    assert [each.rpartition("\r\n")[2] for each in server.asked] == [
        '{"name": "x"}',
        '{"name": "x", "task_id": "t1"}',
    ]


def test_a_stream_that_breaks_before_it_has_a_task_is_not_begun_again(
    server: ScriptedServer, asked: Remote
) -> None:
    server.answers = [STREAM]
    with pytest.raises(HostError, match="the stream ended early"):
        asked.follow("/call", {"name": "x"}, {})
    assert len(server.asked) == 1


def test_an_error_in_a_stream_is_the_environments(server: ScriptedServer, asked: Remote) -> None:
    server.answers = [STREAM + b"event: task_id\ndata: t1\n\nevent: error\ndata: division by zero\n\n"]
    with pytest.raises(HostError, match="division by zero"):
        asked.follow("/call", {}, {})
    assert len(server.asked) == 1


def test_a_socket_file_leads_to_the_server(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        server = ScriptedServer(listening)
        server.answers = [answer(200, "7")]
        assert Remote("https://far.example:8443", str(tmp_path / "s")).ask("GET", "/x") == 7
    assert "\r\nHost: far.example:8443\r\n" in server.asked[0]
