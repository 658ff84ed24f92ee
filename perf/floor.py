"""The baseline ("floor") of figures: the cost of one request to a bare ASGI app behind uvicorn.

It is the lowest cost of serving HTTP in Python with the gym's client. A multiple of it shows the gym's overhead
on this machine and in this run.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import psutil
import uvicorn

from nemo_gym.transport import Call, HttpTransport
from perf.measure import Figures, cpu_s, in_fast_loop

IN_FLIGHT = 64
AsgiApp: TypeAlias = Any
_BYTES_A_RUN = 150_000_000
_MOST_REQUESTS = 10_000
_JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Hop:
    """The cost of one request."""

    requests_per_s: float
    server_cpu_ms: float
    client_cpu_ms: float

    @classmethod
    def of(cls, figures: Figures) -> Hop:
        return cls(**figures)


@dataclass(frozen=True, slots=True)
class Peer:
    """A server in its own process."""

    url: str
    pid: int


async def bare_app(scope: Any, receive: Any, send: Any) -> None:
    """The baseline app, which echoes the body."""
    body = await body_of(receive)
    await answer(send, body)


async def body_of(receive: Any) -> bytes:
    chunks = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


async def answer(send: Any, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(new_app: Callable[[], AsgiApp]) -> Iterator[Peer]:
    """Serve the app of `new_app` in a child process, on a loopback socket that this process holds."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listening:
        process = multiprocessing.get_context("fork").Process(
            target=_serve, args=(new_app, listening), daemon=True
        )
        process.start()
        try:
            yield Peer(f"http://127.0.0.1:{listening.getsockname()[1]}", process.pid or 0)
        finally:
            process.terminate()
            process.join(10)


@asynccontextmanager
async def serving_bare() -> AsyncIterator[str]:
    """Serve the bare app in this event loop, and return its URL."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listening:
        server = _build_server(bare_app)
        task = asyncio.create_task(server.serve([listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


def _serve(new_app: Callable[[], AsgiApp], listening: socket.socket) -> None:
    _build_server(new_app()).run(sockets=[listening])


def _build_server(app: AsgiApp) -> uvicorn.Server:
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", access_log=False, log_level="warning", lifespan="off",
        timeout_keep_alive=75, server_header=False, date_header=False, proxy_headers=False,
    )  # fmt: skip
    return uvicorn.Server(config)


def measure_hop(
    peer: Peer, path: str, body: bytes, *, answer_bytes: int | None = None, requests: int | None = None
) -> Hop:
    """Send `body` in a closed loop with 64 workers. Answers must have `expected` bytes at least (default: as sent)."""
    expected = len(body) if answer_bytes is None else answer_bytes
    if requests is None:
        requests = min(_MOST_REQUESTS, max(IN_FLIGHT, _BYTES_A_RUN // len(body)))
    return Hop.of(in_fast_loop(_drive(peer, Call("POST", path, body, dict(_JSON)), requests, expected)))


async def _drive(peer: Peer, call: Call, requests: int, expected: int) -> Figures:
    transport = HttpTransport()
    each = requests // IN_FLIGHT
    try:
        await _ask(transport, peer, call, 1, expected)  # connections, caches
        server, client = [psutil.Process(peer.pid)], [psutil.Process()]
        before = cpu_s(server), cpu_s(client)
        began = time.perf_counter()
        await _ask(transport, peer, call, each, expected)
        seconds = time.perf_counter() - began
        spent = cpu_s(server) - before[0], cpu_s(client) - before[1]
    finally:
        await transport.close()
    made = each * IN_FLIGHT
    return asdict(Hop(made / seconds, 1e3 * spent[0] / made, 1e3 * spent[1] / made))


async def _ask(transport: HttpTransport, peer: Peer, call: Call, each: int, expected: int) -> None:
    """Make the calls of one worker. Raises `RuntimeError` for an invalid answer."""

    async def work() -> None:
        for _ in range(each):
            reply = await transport.send(peer.url, call)
            if not reply.ok or len(reply.body) < expected:
                text = reply.body[:300].decode(errors="replace")
                problem = f"HTTP {reply.status}, {len(reply.body)} bytes: {text}"
                raise RuntimeError(f"{peer.url}{call.path} answered {problem}")

    async with asyncio.TaskGroup() as group:
        for _ in range(IN_FLIGHT):
            group.create_task(work())


def floor_of_a_hop(size: int = 1_000) -> Hop:
    """Measure the minimum cost of one hop: a bare app that echoes a body of `size` bytes."""
    with served(lambda: bare_app) as peer:
        return measure_hop(peer, "/", b"x" * size)
