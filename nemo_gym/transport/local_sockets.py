"""Sockets within a machine: beside its port, a server of a run listens on a Unix socket, which takes half of the CPU.

A call between two bare servers takes 0.027 ms of CPU on a Unix socket and 0.047 ms on TCP over loopback. The sockets
have abstract names, so they are no files, end with their processes, and are reached within one network namespace only.
Other programs use the ports. Every route checks the same on both.
"""

from __future__ import annotations

import secrets
import socket
import sys
from typing import Any

IS_SUPPORTED = sys.platform == "linux"
"""Abstract names exist on Linux only."""


def new_run() -> str:
    """Return a random name for the sockets of one run."""
    return secrets.token_hex(16)


def listen(run: str, url: str, backlog: int) -> socket.socket | None:
    """Listen for the calls of a run to the server at `url`; None where that is not supported."""
    return listen_at(socket.AF_UNIX, _build_name(run, url), backlog) if IS_SUPPORTED else None


def listen_at(family: int, address: Any, backlog: int) -> socket.socket:
    """Return a socket that listens at an address, and does not block. Raises `OSError`."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(backlog)
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def connect(run: str, url: str) -> socket.socket | None:
    """Connect to the server at `url`, without waiting; None if it does not listen here, or if its backlog is full."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        connection.connect(_build_name(run, url))
    except OSError:
        connection.close()
        return None
    return connection


def _build_name(run: str, url: str) -> str:
    return f"\0nemo_gym {run} {url}"
