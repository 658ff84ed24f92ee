"""Ports on loopback that lead to the gym's sockets: the only addresses that an environment reaches.

A model of an attempt is a socket in the host's folder, which the gym binds anew for every attempt. Clients of models
want a URL, so each socket has a port, which stays for the life of the host.
"""

from __future__ import annotations

import contextlib
import os
import socket
import socketserver
import threading
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 1 << 16


class ModelPorts:
    """The ports of the sockets that requests have named."""

    def __init__(self) -> None:
        self._ports: dict[str, int] = {}

    def place(self, models: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the models with a `base_url` in the place of a `socket`."""
        placed = {}
        for name, model in models.items():
            given = dict(model)
            path = given.pop("socket", None)
            if path is not None:
                given["base_url"] = f"http://127.0.0.1:{self._find_port(path)}/v1"
            placed[name] = given
        return placed

    def _find_port(self, path: str) -> int:
        if path not in self._ports:
            server = _Forwarder(("127.0.0.1", 0), _Connection)
            server.path = Path(path)
            threading.Thread(target=server.serve_forever, daemon=True, name=f"port of {path}").start()
            self._ports[path] = server.server_address[1]
        return self._ports[path]


class _Forwarder(socketserver.ThreadingTCPServer):
    path: Path
    daemon_threads = True
    request_queue_size = 128


class _Connection(socketserver.BaseRequestHandler):
    server: _Forwarder

    def handle(self) -> None:
        with connect(self.server.path) as gym:
            back = threading.Thread(target=copy, args=(gym, self.request), daemon=True)
            back.start()
            copy(self.request, gym)
            back.join()

    def finish(self) -> None:
        self.request.close()


def connect(path: Path) -> socket.socket:
    """Connect to a socket at a path, which may be longer than the name of a socket."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        gym = socket.socket(socket.AF_UNIX)
        gym.connect(f"/proc/self/fd/{folder}/{path.name}")
        return gym
    finally:
        os.close(folder)


def copy(source: socket.socket, sink: socket.socket) -> None:
    """Copy bytes until the end of the stream, and pass the end on."""
    with contextlib.suppress(OSError):  # either side has gone, which ends both directions
        while chunk := source.recv(_CHUNK_BYTES):
            sink.sendall(chunk)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
