"""The program that runs the commands of a sandbox, inside of it.

    python supervisor.py DESCRIPTOR

It answers each connection to the listening Unix socket with the result of one command. A request is a line of JSON, and
then the command's input; the answer is a line of JSON, and then its output and its errors. A caller that closes its
connection ends the command. What a command leaves behind goes on until the sandbox ends.

It is the first process of the sandbox, so that no command can end it. The interpreter gets this file's text, so it
imports the standard library only.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

_CHUNK_BYTES = 1 << 16
_LATE_OUTPUT_S = 0.2
_LONGEST_REQUEST = 1 << 24


class Output:
    """The output of a command. What exceeds its limit is counted and thrown away."""

    def __init__(self, limit: int) -> None:
        self.parts: dict[int, list[bytes]] = {1: [], 2: []}
        self.left = limit
        self.exceeded = asyncio.Event()

    def add(self, stream: int, data: bytes) -> None:
        self.parts[stream].append(data[: self.left])
        self.left -= min(len(data), self.left)
        if not self.left:
            self.exceeded.set()

    def text(self, stream: int) -> bytes:
        return b"".join(self.parts[stream])


async def read_all(pipe: IO[bytes], stream: int, output: Output) -> None:
    """Read a pipe to its end. It is read on when its command has ended, so that nothing left behind is blocked."""
    reader = asyncio.StreamReader(limit=_CHUNK_BYTES)
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    while data := await reader.read(_CHUNK_BYTES):
        output.add(stream, data)


async def feed(pipe: IO[bytes], data: bytes) -> None:
    with contextlib.suppress(OSError):
        await asyncio.to_thread(write_all, pipe, data)


def write_all(pipe: IO[bytes], data: bytes) -> None:
    with pipe:
        left = memoryview(data)
        while left:
            left = left[pipe.write(left) :]


def find_account(user: str) -> dict[str, str]:
    """Return the variables that name a user. Raises KeyError for one that the image does not have."""
    name = user.partition(":")[0]
    with Path("/etc/passwd").open(encoding="utf-8", errors="replace") as accounts:
        for line in accounts:
            fields = line.rstrip("\n").split(":")
            if len(fields) >= 7 and name in (fields[0], fields[2]):
                return {"HOME": fields[5] or "/", "USER": fields[0], "LOGNAME": fields[0]}
    if name.isdigit():
        return {"HOME": "/"}
    raise KeyError(name)


class Children:
    """The processes of the sandbox, whose first process has to wait for all of them."""

    def __init__(self) -> None:
        self._ends: dict[int, asyncio.Future[int]] = {}

    def watch(self, pid: int) -> asyncio.Future[int]:
        """Return the future status of a process that was just started."""
        end = self._ends[pid] = asyncio.get_running_loop().create_future()
        return end

    def reap(self) -> None:
        """Wait for every process that has ended."""
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                end = self._ends.pop(found[0], None)
                if end is not None and not end.done():
                    end.set_result(os.waitstatus_to_exitcode(found[1]))


CHILDREN = Children()


async def run_command(
    request: dict[str, Any], data: bytes, gone: asyncio.Event
) -> tuple[dict[str, Any], Output]:
    """Run one command. The head of its answer says how it ended."""
    output = Output(request["max_output_bytes"])
    try:
        account = find_account(request["user"]) if request.get("user") else {}
    except (KeyError, OSError):
        output.add(2, f"there is no user {request['user']!r} in this image\n".encode())
        return {"status": 126, "ending": "exited"}, output
    try:
        process = subprocess.Popen(  # noqa: ASYNC220 - it takes a moment, and `CHILDREN` waits
            request["command"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=request.get("cwd") or "/",
            env={**request["env"], **account},
            start_new_session=True,
        )
    except OSError as error:
        output.add(2, f"{request['command'][0]}: {error}\n".encode())
        return {"status": 127, "ending": "exited"}, output
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    end = CHILDREN.watch(process.pid)
    streams = enumerate((process.stdout, process.stderr), 1)
    readers = [asyncio.ensure_future(read_all(pipe, stream, output)) for stream, pipe in streams]
    feeder = asyncio.ensure_future(feed(process.stdin, data))
    ending = await wait_for_end(process.pid, end, request["timeout_s"], output, gone)
    await asyncio.wait(readers, timeout=_LATE_OUTPUT_S)
    feeder.cancel()
    status = process.returncode = end.result()
    return {"status": status if status >= 0 else 128 - status, "ending": ending}, output


async def wait_for_end(
    pid: int, end: asyncio.Future[int], timeout_s: float, output: Output, gone: asyncio.Event
) -> str:
    """Wait for the end of a command, and end it with its process group at its limits."""
    others: dict[asyncio.Future[Any], str] = {
        asyncio.ensure_future(output.exceeded.wait()): "output_exceeded",
        asyncio.ensure_future(gone.wait()): "abandoned",
    }
    done, _ = await asyncio.wait((end, *others), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    for each in others:
        each.cancel()
    if end in done:
        return "exited"
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    await end
    return next((others[each] for each in done), "timeout")


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one connection."""
    try:
        request = json.loads(await reader.readline())
        data = await reader.readexactly(request["stdin_bytes"])
        gone = asyncio.Event()
        watch = asyncio.ensure_future(reader.read())
        watch.add_done_callback(lambda _: gone.set())
        head, output = await run_command(request, data, gone)
        watch.cancel()
        texts = [output.text(1), output.text(2)]
        writer.write(json.dumps({**head, "bytes": [len(text) for text in texts]}).encode() + b"\n")
        for text in texts:
            writer.write(text)
        await writer.drain()
    except (OSError, ValueError, KeyError, asyncio.IncompleteReadError) as error:
        sys.stderr.write(f"a command was not answered: {error!r}\n")
    finally:
        writer.close()


async def serve(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGCHLD, CHILDREN.reap)
    listening = socket.socket(fileno=descriptor)
    server = await asyncio.start_unix_server(answer, sock=listening, limit=_LONGEST_REQUEST)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # no command ends the first process, then
    asyncio.run(serve(int(sys.argv[1])))
