"""The way of hosts to one server outside of their sandbox: a socket file, whose connections all go to one address.

A host has no network. The gym copies bytes and does not read them; TLS of `https` ends here. A program in the sandbox
reaches this address and no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from nemo_gym.isolation.execution import Workspace, new_workspace, remove_workspace
from nemo_gym.sources.foreign.process import HostProgram

SOCKET_VARIABLE: Final = "GYM_SOCKET"
_CHUNK_BYTES = 1 << 16
_CONNECT_S = 20.0
_SCHEME_PORTS = {"http": 80, "https": 443}


class Forwarding:
    """An open socket file."""

    def __init__(self, url: str, workspace: Workspace) -> None:
        parts = urlsplit(url)
        self._url = url
        self._host = parts.hostname or ""
        self._port = parts.port or _SCHEME_PORTS[parts.scheme]
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._workspace = workspace
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, url: str) -> Forwarding:
        """Make a socket file that leads to the address of a URL."""
        forwarding = cls(url, await asyncio.to_thread(new_workspace))
        forwarding._workspace.folder.chmod(0o711)  # hosts run as users of their own
        forwarding._server = await asyncio.start_unix_server(forwarding._forward, forwarding.socket)
        forwarding.socket.chmod(0o666)
        return forwarding

    @property
    def socket(self) -> Path:
        return self._workspace.folder / "server"

    def lend(self, program: HostProgram) -> HostProgram:
        """Return a program whose hosts find the socket."""
        return replace(
            program,
            readable=(*program.readable, self._workspace.folder),
            variables={**program.variables, SOCKET_VARIABLE: str(self.socket)},
        )

    async def close(self) -> None:
        """Close the socket, and delete it. Idempotent."""
        if self._server is not None:
            self._server.close()
            self._server = None
            await remove_workspace(self._workspace)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_CONNECT_S):
                far_reader, far_writer = await asyncio.open_connection(self._host, self._port, ssl=self._tls)
        except OSError as error:  # time-outs are among them
            await reader.read(_CHUNK_BYTES)  # one who has not been heard gets no answer
            writer.write(self._refuse(error))
            writer.close()
            return
        copies = [
            asyncio.create_task(_copy(reader, far_writer)),
            asyncio.create_task(_copy(far_reader, writer)),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            writer.close()  # what was copied before is still sent
            far_writer.close()

    def _refuse(self, error: OSError) -> bytes:
        told = f"{self._url} cannot be reached: {error or type(error).__name__}"
        body = json.dumps({"detail": told}).encode()
        return b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until one of the two ends."""
    with contextlib.suppress(OSError):  # it has gone, and so will the other
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
