"""Authenticated messages between the launcher and a node host: JSON over TCP, each with a keyed digest.

Both ends know the run's token, which itself is never sent. Each direction of a connection has a key of its own, made of
the token and a random number of either end, and messages are counted, so that none can be forged, replayed or
reordered. They contain no secrets, and are encrypted if the gym uses TLS. They are JSON, because a pickle would let the
peer execute code before it is authenticated.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import os
import struct
from typing import Any, Literal

from nemo_gym.launch.errors import LaunchError

End = Literal["head", "node"]

BEAT_S = 1.0
"""Seconds between two beats of a node."""
LEASE_S = 12.0
"""Seconds after the last beat that the launcher has answered. Then the node host ends its servers and itself."""
LOST_AFTER_S = 16.0
"""Seconds without a beat after which the launcher takes the node for lost. The difference to the lease is more than the
time in which the node host ends its servers, so a lost node has none."""

_HEAD = struct.Struct("!I32s")
"""The length of the body in bytes, and its digest."""
_NONCE_BYTES = 16
_MAX_BODY_BYTES = 64 << 20


class Channel:
    """One end of a connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key_out: bytes, key_in: bytes
    ) -> None:
        self._reader, self._writer = reader, writer
        self._key_out, self._key_in = key_out, key_in
        self._sent, self._received = itertools.count(), itertools.count()

    @classmethod
    async def open(
        cls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str, end: End
    ) -> Channel:
        """Exchange random numbers with the other end. Raises `EOFError`. A wrong token shows at the first message."""
        ours = os.urandom(_NONCE_BYTES)
        writer.write(ours)
        try:
            theirs = await reader.readexactly(_NONCE_BYTES)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise EOFError("the other end has closed the connection") from error
        nonces = ours + theirs if end == "head" else theirs + ours
        keys = {
            each: hmac.digest(token.encode(), each.encode() + nonces, "sha256") for each in ("head", "node")
        }
        return cls(reader, writer, keys[end], keys["node" if end == "head" else "head"])

    @property
    def own_host(self) -> str:
        """The address of this end."""
        return str(self._writer.get_extra_info("sockname")[0])

    @property
    def peer_host(self) -> str:
        """The address of the other end, as this end sees it."""
        return str(self._writer.get_extra_info("peername")[0])

    def send(self, message: dict[str, Any]) -> None:
        """Send a message soon. A closed connection drops it, which `receive` reports."""
        body = json.dumps(message).encode()
        self._writer.write(_HEAD.pack(len(body), _digest(self._key_out, next(self._sent), body)) + body)

    async def drain(self) -> None:
        """Wait until the other end has read most of the earlier messages. Raises `OSError` if it is gone."""
        await self._writer.drain()

    async def receive(self, at_most: int = _MAX_BODY_BYTES) -> dict[str, Any]:
        """Return the next message. Raises `EOFError` at the end, `LaunchError` for one that the peer did not write.

        `at_most`: the largest body in bytes.
        """
        try:
            size, digest = _HEAD.unpack(await self._reader.readexactly(_HEAD.size))
            if size > at_most:
                raise _not_authentic()
            body = await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise EOFError("the other end has closed the connection") from error
        if not hmac.compare_digest(digest, _digest(self._key_in, next(self._received), body)):
            raise _not_authentic()
        message: dict[str, Any] = json.loads(body)
        return message

    def close(self) -> None:
        """Close the connection; messages that were not sent yet are dropped."""
        self._writer.transport.abort()


def _digest(key: bytes, number: int, body: bytes) -> bytes:
    return hmac.digest(key, struct.pack("!Q", number) + body, hashlib.sha256)


def _not_authentic() -> LaunchError:
    return LaunchError(
        "a message on the control connection was not written by a node of this run",
        code="node_not_authentic",
        remedy="Another program has connected to the launcher's port, or the run's token differs.",
    )
