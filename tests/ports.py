"""Ports of this machine for programs that choose none by themselves."""

from __future__ import annotations

import asyncio
import socket


def free_port() -> int:
    """Return a port of loopback that was free just now."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port


async def until_accepts(port: int) -> None:
    """Return when a program accepts connections at a port of loopback. The caller bounds the time."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
