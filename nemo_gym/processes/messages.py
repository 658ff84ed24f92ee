"""Messages between a parent and its child: length-prefixed pickles over a Unix stream socket.

Both ends run the same code, so a pickle is as trusted as its reader. File descriptors can accompany a message. This
module does not import asyncio at import time, because workers do not need it.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

LENGTH = struct.Struct("!Q")
"""The prefix of every message: the bytes of the pickle that follows."""
MAX_DESCRIPTORS = 250
"""The most descriptors with one message; Linux allows 253."""
_CHUNK_BYTES = 256 * 1024


def frame(message: object) -> bytes:
    """The bytes of `message` on a socket."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def send(channel: socket.socket, message: object, descriptors: Sequence[int] = ()) -> None:
    """Send `message`, with copies of `descriptors`. Raises `OSError` if the other end is closed."""
    data = frame(message)
    sent = socket.send_fds(channel, [data], descriptors) if descriptors else 0
    channel.sendall(data[sent:])


def receive(channel: socket.socket) -> Any:
    """Receive a message. Raises `EOFError` if the other end is closed, `TimeoutError` at the socket's timeout."""
    return receive_with_descriptors(channel)[0]


def receive_with_descriptors(channel: socket.socket) -> tuple[Any, list[int]]:
    """Receive a message and its descriptors. Raises as `receive` does."""
    try:
        head, descriptors, _, _ = socket.recv_fds(channel, LENGTH.size, MAX_DESCRIPTORS)
        if not head:
            raise EOFError("the other end of the channel is closed")
        head += _receive_exactly(channel, LENGTH.size - len(head))
        body = _receive_exactly(channel, *LENGTH.unpack(head))
    except ConnectionResetError as error:
        raise EOFError("the other end of the channel is closed") from error
    return pickle.loads(body), descriptors


async def receive_async(channel: socket.socket) -> Any:
    """`receive` from a non-blocking socket on the running event loop."""
    (length,) = LENGTH.unpack(await _receive_exactly_async(channel, LENGTH.size))
    return pickle.loads(await _receive_exactly_async(channel, length))


def _receive_exactly(channel: socket.socket, count: int) -> bytearray:
    buffer = bytearray(count)
    view = memoryview(buffer)
    while view:
        received = channel.recv_into(view)
        if not received:
            raise EOFError("the other end of the channel was closed within a message")
        view = view[received:]
    return buffer


async def _receive_exactly_async(channel: socket.socket, count: int) -> bytearray:
    from asyncio import get_running_loop

    loop, data = get_running_loop(), bytearray()
    while len(data) < count:
        try:
            chunk = await loop.sock_recv(channel, min(count - len(data), _CHUNK_BYTES))
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            raise EOFError("the other end of the channel is closed")
        data += chunk
    return data
