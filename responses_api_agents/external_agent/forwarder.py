"""The program that runs in an agent's sandbox: it forwards a loopback port to a socket, and runs the agent.

    python forwarder.py SOCKET PORT FOLDER COMMAND...

The network of the sandbox has nothing but this port, and the other end of the socket is the gateway of one attempt
(`gateway.py`). With port 0 nothing is forwarded. The agent runs in FOLDER, and its exit status is that of this program:
127 if it cannot be started, 128 + its number for a signal. The interpreter gets this file's text, so it imports the
standard library only.
"""

from __future__ import annotations

import asyncio
import os
import sys

_CHUNK_BYTES = 1 << 16


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until the end of the stream, and pass the end on."""
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def run(socket: str, port: int, folder: str, command: list[str]) -> int:
    """Forward connections while the command runs, and return its exit status."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            gateway_reader, gateway_writer = await asyncio.open_unix_connection(os.path.basename(socket))  # noqa: PTH119 - short
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, gateway_writer), copy(gateway_reader, writer))
        gateway_writer.close()
        writer.close()

    if port:
        os.chdir(os.path.dirname(socket))  # noqa: PTH120 - the name of a socket may have 107 bytes
        await asyncio.start_server(forward, "127.0.0.1", port)
    try:
        environment = {**os.environ, "PWD": folder}  # some agents believe it
        process = await asyncio.create_subprocess_exec(*command, cwd=folder, env=environment)
    except OSError as error:
        sys.stderr.write(f"{command[0]} cannot be started: {error}\n")
        return 127
    status = await process.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    # Connections of processes that the agent leaves behind must not delay the end.
    loop = asyncio.new_event_loop()
    code = loop.run_until_complete(run(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
    sys.stderr.flush()
    os._exit(code)
