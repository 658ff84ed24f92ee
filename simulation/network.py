"""The simulated network: real apps and requests, with faults in transit.

It imitates sockets. A handler continues after its caller has disconnected unless it checks; a request may arrive after
its sender has ended; the death of a process breaks all its connections. A gym server restarts on a held socket, so
its callers wait; an engine's socket is not held, so its callers are refused.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any

from nemo_gym.failures import TransportError
from nemo_gym.names import DIRECTORY_ROUTE
from nemo_gym.rows.identity import identity_at
from nemo_gym.rows.keys import ATTEMPT_INDEX_KEY
from nemo_gym.transport import Call, Reply
from nemo_gym.transport.context import SESSION_HEADER
from nemo_gym.transport.control import DURABLE_RUNS
from nemo_gym.transport.deadline import DEADLINE_HEADER
from simulation.events import AttemptId, Kind, Sent
from simulation.exchange import Exchange
from simulation.faults import CallFault, CallFaults, FaultKind
from simulation.faulty_replies import answer_instead, spoil
from simulation.monitor import Monitor
from simulation.processes import Process, attempt_at_work

_LATENCY_S = (0.0002, 0.004)
_DIES_WITHIN_S = 0.3
EVERYWHERE = "everywhere"
"""The node of a server that every machine always reaches."""
_FIGURES = "/_ng/stats"
_UNRECORDED = frozenset({_FIGURES, DIRECTORY_ROUTE})

ServerFactory = Callable[[Process], Awaitable[Any]]
"""Builds a server in its process and returns its app."""


class Address:
    """A server's address with its current process."""

    def __init__(
        self,
        server: str,
        factory: ServerFactory,
        *,
        is_held: bool,
        node: str = "",
        movable_at: str | None = None,
    ) -> None:
        """`is_held`: whether the launcher keeps the socket open while the server is down. `movable_at`: the origin of a
        replica that can move."""
        self.server = server
        self.factory = factory
        self.is_held = is_held
        self.node = node
        self.movable_at = movable_at
        self.is_gone = False
        """True after the end of its node host, which held the socket."""
        self.is_up = asyncio.Event()
        self.process = Process(server)
        self.app: Any = None
        self.residents: frozenset[asyncio.Task[Any]] = frozenset()
        """Tasks that run as long as the process."""


class Network:
    """Carries calls between processes."""

    def __init__(self, monitor: Monitor, faults: CallFaults, rng: Random) -> None:
        self._monitor = monitor
        self._faults = faults
        self._rng = rng
        self._addresses: dict[str, Address] = {}
        self._calls = 0
        self._detached: dict[asyncio.Task[None], None] = {}
        self.link = asyncio.Event()
        """Set while the machines reach each other."""
        self.link.set()
        self.start_number = 0
        """The number of the run's current start, which is part of attempt ids."""

    # --- Servers ------------------------------------------------------------------------------------------------

    async def open(self, origin: str, address: Address) -> None:
        self._addresses[origin] = address
        await self._start_server(address)

    async def _start_server(self, address: Address) -> None:
        address.process = Process(address.server, address.node)
        address.app = await address.process.spawn(_awaiting(address.factory(address.process)), "factory")
        address.residents = frozenset(address.process.tasks)
        address.is_up.set()
        self._monitor.record(Kind.UP, address.server)

    def crash(self, address: Address, seconds: float) -> None:
        """End the server's process and start another after `seconds`."""
        if not address.is_up.is_set() or address.is_gone:
            return
        address.is_up.clear()
        address.process.kill()
        self._monitor.record(Kind.CRASHED, address.server, detail=seconds)

        async def restart() -> None:
            await asyncio.sleep(seconds)
            if not address.is_gone:
                await self._start_server(address)

        self._start_detached(restart())

    def find_address(self, server: str) -> Address | None:
        """Return the first address of a server that is up; None without one."""
        return next(
            (each for each in self._addresses.values() if each.server == server and each.is_up.is_set()), None
        )

    def end_node(self, node: str) -> list[str]:
        """End the servers of a node for good, with their sockets. Returns their origins."""
        ended = [(origin, each) for origin, each in self._addresses.items() if each.node == node]
        for _, address in ended:
            address.is_gone = True
            address.process.kill()
            address.is_up.set()  # calls that waited for its restart fail
        return [origin for origin, _ in ended]

    async def close(self) -> None:
        """End every server and every call in flight."""
        for address in self._addresses.values():
            address.process.kill()
        for task in list(self._detached):
            task.cancel()
        while self._detached:
            await asyncio.wait(list(self._detached))
        for address in self._addresses.values():
            await address.process.ended()

    @property
    def calls_in_flight(self) -> int:
        return len(self._detached)

    @property
    def tasks_running(self) -> int:
        """The number of server tasks that should have ended when no call is in flight."""
        return sum(
            task not in address.residents
            for address in self._addresses.values()
            for task in address.process.tasks
        )

    # --- Calls --------------------------------------------------------------------------------------------------

    def transport_of(self, process: Process) -> ProcessTransport:
        """Return the transport for the code in `process`."""
        return ProcessTransport(self, process)

    async def carry(self, sender: Process, base_url: str, call: Call) -> Reply:
        sender.require_alive()
        exchange = Exchange(base_url, call)
        address = self._addresses.get(exchange.origin)
        if address is None:
            raise exchange.refused()
        if exchange.path in _UNRECORDED:
            return await self._serve_unrecorded(exchange, sender, address)
        self._calls += 1
        number, place = self._calls, f"{address.server} {exchange.path}"
        attempt = self._attempt_of(exchange)
        self._monitor.record(
            Kind.SENT, place, attempt=attempt, call=number, detail=_sent(sender, address, exchange)
        )
        self._start_detached(self._deliver(exchange, sender, address, attempt, number))
        try:
            reply = await exchange.reply
        except TransportError as error:
            self._monitor.record(Kind.BROKEN, place, attempt=attempt, call=number, detail=error.failure.code)
            raise
        except asyncio.CancelledError:
            exchange.closed.set()
            self._monitor.record(Kind.LEFT, place, attempt=attempt, call=number)
            raise
        self._monitor.record(Kind.ANSWERED, place, attempt=attempt, call=number, detail=reply.status)
        return reply

    async def _cross(self, sender: Process, address: Address) -> None:
        """Wait until the two machines reach each other."""
        if address.node not in (EVERYWHERE, sender.node):
            await self.link.wait()

    async def _serve_unrecorded(self, exchange: Exchange, sender: Process, address: Address) -> Reply:
        """Serve a poll of figures or of the directory without recording it and without faults."""
        await self._cross(sender, address)
        await address.is_up.wait()
        if address.is_gone:
            raise exchange.refused()
        handler = address.process.spawn(exchange.serve(address.app), exchange.path)
        await asyncio.wait([handler])
        reply = None if handler.cancelled() else handler.result()
        if reply is None:
            raise exchange.broken()
        return reply

    def _attempt_of(self, exchange: Exchange) -> AttemptId | None:
        if exchange.path == "/run":
            return attempt_in(exchange.call.body or b"", self.start_number)
        return attempt_at_work()

    def _start_detached(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` outside every process."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._detached[task] = None
        task.add_done_callback(lambda done: self._detached.pop(done, None))

    async def _deliver(
        self,
        exchange: Exchange,
        sender: Process,
        address: Address,
        attempt: AttemptId | None,
        number: int,
    ) -> None:
        place = f"{address.server} {exchange.path}"
        fault = self._faults.meet((address.server, exchange.path))
        if fault is not None:
            self._monitor.record(Kind.FAULT, place, attempt=attempt, call=number, detail=fault)
        try:
            await self._latency()
            await self._cross(sender, address)
            instead = await self._fault_before(exchange, address, fault)
            if instead is None:
                if not address.is_up.is_set() and not address.is_held:
                    raise exchange.refused()
                await address.is_up.wait()
                if address.is_gone:
                    raise exchange.refused()
                handler = address.process.spawn(
                    self._handle(exchange, address, attempt, number), f"{place} #{number}", attempt
                )
                instead = await self._fault_after(exchange, address, handler, fault)
                await self._latency()
            await self._cross(sender, address)
        except TransportError as error:
            await self._cross(sender, address)
            exchange.fail(error)
        else:
            exchange.answer(instead)

    async def _handle(
        self, exchange: Exchange, address: Address, attempt: AttemptId | None, number: int
    ) -> Reply | None:
        """Return the app's answer, or None if it is incomplete."""
        place = f"{address.server} {exchange.path}"
        self._monitor.record(Kind.BEGUN, place, attempt=attempt, call=number, detail=address.movable_at)
        try:
            return await exchange.serve(address.app)
        finally:
            self._monitor.record(Kind.DONE, place, attempt=attempt, call=number, detail=exchange.status)

    async def _latency(self) -> None:
        await asyncio.sleep(self._rng.uniform(*_LATENCY_S))

    # --- FaultKind ---------------------------------------------------------------------------------------------------

    async def _fault_before(
        self, exchange: Exchange, address: Address, fault: CallFault | None
    ) -> Reply | None:
        """Apply a fault before execution. Return a reply in place of execution, if any. Raises `TransportError`."""
        match fault.kind if fault is not None else None:
            case FaultKind.REFUSED:
                raise exchange.refused()
            case FaultKind.RESET_BEFORE:
                raise exchange.broken()
            case FaultKind.SILENT_BEFORE:
                await exchange.closed.wait()
                raise exchange.broken()
        if fault is None:
            return None
        if fault.kind is FaultKind.SLOW:
            await asyncio.sleep(fault.seconds)
        return answer_instead(fault)

    async def _fault_after(
        self,
        exchange: Exchange,
        address: Address,
        handler: asyncio.Task[Reply | None],
        fault: CallFault | None,
    ) -> Reply:
        """Return the reply of an executing call. Raises `TransportError`."""
        match fault.kind if fault is not None else None:
            case FaultKind.RESET_DURING:
                assert fault is not None
                await asyncio.wait([handler], timeout=fault.seconds)
                raise exchange.broken()
            case FaultKind.CRASH:
                assert fault is not None
                await asyncio.wait([handler], timeout=self._rng.uniform(0.0, _DIES_WITHIN_S))
                self.crash(address, fault.seconds)
                raise exchange.broken()
        await asyncio.wait([handler])
        reply = None if handler.cancelled() else handler.result()
        if reply is None:
            raise exchange.broken()
        match fault.kind if fault is not None else None:
            case FaultKind.RESET_AFTER:
                raise exchange.broken()
            case FaultKind.SILENT_AFTER:
                await asyncio.wait([exchange.reply])  # until the caller gives up
        return reply if fault is None else spoil(reply, fault)


class ProcessTransport:
    """The `Transport` of one process."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    async def send(self, base_url: str, call: Call) -> Reply:
        return await self._network.carry(self._process, base_url, call)

    async def close(self) -> None:
        """Do nothing: a process has no connections to close."""


def attempt_in(body: bytes, start: int) -> AttemptId | None:
    """Return the attempt in the body of a `/run` call, or None."""
    identity = identity_at(body)
    _, found, rest = body[:200].partition(b'"%b":' % ATTEMPT_INDEX_KEY.encode())
    if identity is None or not found:
        return None
    return AttemptId(start, identity.task, identity.repeat, int(rest.partition(b",")[0]))


def _sent(sender: Process, address: Address, exchange: Exchange) -> Sent:
    headers = {name.lower(): value for name, value in exchange.call.headers.items()}
    deadline = headers.get(DEADLINE_HEADER)
    return Sent(
        sender=sender.name,
        server=address.server,
        route=exchange.path,
        deadline_s=float(deadline) if deadline is not None else None,
        # A run that is told of is named by its folder, which is another one in every play.
        checksum=0 if exchange.path == DURABLE_RUNS else zlib.crc32(exchange.call.body or b""),
        session=headers.get(SESSION_HEADER),
    )


async def _awaiting(work: Awaitable[Any]) -> Any:
    return await work
