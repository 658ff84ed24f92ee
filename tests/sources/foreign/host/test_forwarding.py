"""Ports that lead to sockets, each of which is bound anew for every attempt."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from nemo_gym.sources.foreign.host.forwarding import ModelPorts, connect


@contextmanager
def answering(path: Path, answer: bytes) -> Iterator[list[bytes]]:
    """Answer one connection at a socket file, and yield what it sends."""
    heard: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while chunk := connection.recv(4096):
                    heard.append(chunk)
                connection.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        yield heard
        thread.join()
    path.unlink()


def ask(url: str, sent: bytes) -> bytes:
    port = urlsplit(url).port
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        answered = b""
        while chunk := client.recv(4096):
            answered += chunk
        return answered


def test_bytes_go_both_ways_and_a_port_outlasts_its_socket(tmp_path: Path) -> None:
    ports, path = ModelPorts(), tmp_path / "model0"
    urls = []
    for number in range(2):
        with answering(path, b"answer %d" % number) as heard:
            placed = ports.place({"seat": {"socket": str(path), "key": "k", "model": "policy"}})
            assert placed["seat"].keys() == {"base_url", "key", "model"}
            urls.append(placed["seat"]["base_url"])
            assert ask(urls[-1], b"x" * 100_000) == b"answer %d" % number
        assert b"".join(heard) == b"x" * 100_000
    assert urls[0] == urls[1]
    assert urls[0].endswith("/v1")


def test_a_model_with_a_url_keeps_it() -> None:
    model = {"base_url": "http://127.0.0.1:1/v1", "key": "k", "model": "policy"}
    assert ModelPorts().place({"seat": model}) == {"seat": model}


def test_the_path_of_a_socket_may_be_long(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    short = tmp_path / "s"
    with answering(short, b"done") as heard:
        (folder / "model0").symlink_to(short)
        with connect(folder / "model0") as gym:
            gym.shutdown(socket.SHUT_WR)
            assert gym.recv(10) == b"done"
    assert heard == []
