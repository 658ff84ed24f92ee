"""The network of the simulation: real apps, real requests, and faults on the way.

It behaves as sockets do where that matters. A server works on after its caller has left, unless it asks and cares;
a request may arrive after its sender has gone; the death of a process breaks every connection it has. A server of the
gym is restarted on the socket that was held for it, so that callers wait; an engine is not, so that they are refused.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any

from nemo_gym.failures import TransportError
from nemo_gym.names import ATTEMPT_INDEX_KEY
from nemo_gym.rollouts.plan.identity import identity_at
from nemo_gym.transport import Call, Reply
from nemo_gym.transport.deadline import DEADLINE_HEADER
from simulation.events import AttemptId, Kind, Sent
from simulation.exchange import Exchange
from simulation.faults import CallFault, CallFaults, Harm
from simulation.harms import answer_instead, spoil
from simulation.processes import Process, attempt_at_work
from simulation.witness import Witness

_LATENCY_S = (0.0002, 0.004)
_DIES_WITHIN_S = 0.3
_FIGURES = "/_ng/stats"

Boot = Callable[[Process], Awaitable[Any]]
"""Builds a server in its process and gives its app."""


class Address:
    """Where a server listens, and the process that does at the moment."""

    def __init__(self, server: str, boot: Boot, *, is_held: bool) -> None:
        """`is_held`: whether somebody else keeps the socket open while the server is away."""
        self.server = server
        self.boot = boot
        self.is_held = is_held
        self.is_up = asyncio.Event()
        self.process = Process(server)
        self.app: Any = None
        self.residents: frozenset[asyncio.Task[Any]] = frozenset()
        """Tasks of the process that run as long as it does."""


class Network:
    """Carries calls between processes."""

    def __init__(self, witness: Witness, faults: CallFaults, rng: Random) -> None:
        self._witness = witness
        self._faults = faults
        self._rng = rng
        self._addresses: dict[str, Address] = {}
        self._calls = 0
        self._on_the_wire: dict[asyncio.Task[None], None] = {}
        self.start_number = 0
        """Of the run's present start: what attempts are counted under."""

    # --- Servers ------------------------------------------------------------------------------------------------

    async def open(self, origin: str, address: Address) -> None:
        self._addresses[origin] = address
        await self._bring_up(address)

    async def _bring_up(self, address: Address) -> None:
        address.process = Process(address.server)
        address.app = await address.process.spawn(_awaiting(address.boot(address.process)), "boot")
        address.residents = frozenset(address.process.tasks)
        address.is_up.set()
        self._witness.note(Kind.UP, address.server)

    def crash(self, address: Address, seconds: float) -> None:
        """End the server's process; another one is up after `seconds`."""
        if not address.is_up.is_set():
            return
        address.is_up.clear()
        address.process.kill()
        self._witness.note(Kind.CRASHED, address.server, detail=seconds)

        async def restart() -> None:
            await asyncio.sleep(seconds)
            await self._bring_up(address)

        self._put_on_the_wire(restart())

    async def close(self) -> None:
        """End every server and everything that is still under way."""
        for address in self._addresses.values():
            address.process.kill()
        for task in list(self._on_the_wire):
            task.cancel()
        while self._on_the_wire:
            await asyncio.wait(list(self._on_the_wire))
        for address in self._addresses.values():
            await address.process.ended()

    @property
    def calls_in_flight(self) -> int:
        return len(self._on_the_wire)

    @property
    def tasks_running(self) -> int:
        """Tasks of servers that should have come to an end when nobody asks for anything."""
        return sum(
            task not in address.residents
            for address in self._addresses.values()
            for task in address.process.tasks
        )

    # --- Calls --------------------------------------------------------------------------------------------------

    def transport_of(self, process: Process) -> ProcessTransport:
        """How the code in a process calls others."""
        return ProcessTransport(self, process)

    async def carry(self, sender: Process, base_url: str, call: Call) -> Reply:
        sender.require_alive()
        exchange = Exchange(base_url, call)
        address = self._addresses.get(exchange.origin)
        if address is None:
            raise exchange.refused()
        if exchange.path == _FIGURES:
            return await self._look(exchange, address)
        self._calls += 1
        number, place = self._calls, f"{address.server} {exchange.path}"
        attempt = self._attempt_of(exchange)
        self._witness.note(
            Kind.SENT, place, attempt=attempt, call=number, detail=_sent(sender, address, exchange)
        )
        self._put_on_the_wire(self._deliver(exchange, address, attempt, number))
        try:
            reply = await exchange.reply
        except TransportError as error:
            self._witness.note(Kind.BROKEN, place, attempt=attempt, call=number, detail=error.failure.code)
            raise
        except asyncio.CancelledError:
            exchange.closed.set()
            self._witness.note(Kind.LEFT, place, attempt=attempt, call=number)
            raise
        self._witness.note(Kind.ANSWERED, place, attempt=attempt, call=number, detail=reply.status)
        return reply

    async def _look(self, exchange: Exchange, address: Address) -> Reply:
        """Answer one who only looks at a server's figures, as is done all the time: nothing is noted or harmed."""
        await address.is_up.wait()
        handler = address.process.spawn(exchange.serve(address.app), _FIGURES)
        await asyncio.wait([handler])
        reply = None if handler.cancelled() else handler.result()
        if reply is None:
            raise exchange.broken()
        return reply

    def _attempt_of(self, exchange: Exchange) -> AttemptId | None:
        if exchange.path == "/run":
            return attempt_in(exchange.call.body or b"", self.start_number)
        return attempt_at_work()

    def _put_on_the_wire(self, work: Coroutine[Any, Any, None]) -> None:
        """Run what belongs to no process."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._on_the_wire[task] = None
        task.add_done_callback(lambda done: self._on_the_wire.pop(done, None))

    async def _deliver(
        self, exchange: Exchange, address: Address, attempt: AttemptId | None, number: int
    ) -> None:
        place = f"{address.server} {exchange.path}"
        fault = self._faults.meet((address.server, exchange.path))
        if fault is not None:
            self._witness.note(Kind.HARMED, place, attempt=attempt, call=number, detail=fault)
        try:
            await self._latency()
            instead = await self._harm_before(exchange, address, fault)
            if instead is None:
                if not address.is_up.is_set() and not address.is_held:
                    raise exchange.refused()
                await address.is_up.wait()
                handler = address.process.spawn(
                    self._handle(exchange, address, attempt, number), f"{place} #{number}", attempt
                )
                instead = await self._harm_after(exchange, address, handler, fault)
                await self._latency()
        except TransportError as error:
            exchange.fail(error)
        else:
            exchange.answer(instead)

    async def _handle(
        self, exchange: Exchange, address: Address, attempt: AttemptId | None, number: int
    ) -> Reply | None:
        """The app's answer; None when it ended without a whole one."""
        place = f"{address.server} {exchange.path}"
        self._witness.note(Kind.BEGUN, place, attempt=attempt, call=number)
        try:
            return await exchange.serve(address.app)
        finally:
            self._witness.note(Kind.DONE, place, attempt=attempt, call=number, detail=exchange.status)

    async def _latency(self) -> None:
        await asyncio.sleep(self._rng.uniform(*_LATENCY_S))

    # --- Harm ---------------------------------------------------------------------------------------------------

    async def _harm_before(
        self, exchange: Exchange, address: Address, fault: CallFault | None
    ) -> Reply | None:
        """What happens instead of executing the call, if anything: an answer, or a `TransportError`."""
        match fault.harm if fault is not None else None:
            case Harm.REFUSED:
                raise exchange.refused()
            case Harm.RESET_BEFORE:
                raise exchange.broken()
            case Harm.SILENT_BEFORE:
                await exchange.closed.wait()
                raise exchange.broken()
        if fault is None:
            return None
        if fault.harm is Harm.SLOW:
            await asyncio.sleep(fault.seconds)
        return answer_instead(fault)

    async def _harm_after(
        self,
        exchange: Exchange,
        address: Address,
        handler: asyncio.Task[Reply | None],
        fault: CallFault | None,
    ) -> Reply:
        """What comes back of a call that is being executed."""
        match fault.harm if fault is not None else None:
            case Harm.RESET_DURING:
                assert fault is not None
                await asyncio.wait([handler], timeout=fault.seconds)
                raise exchange.broken()
            case Harm.CRASH:
                assert fault is not None
                await asyncio.wait([handler], timeout=self._rng.uniform(0.0, _DIES_WITHIN_S))
                self.crash(address, fault.seconds)
                raise exchange.broken()
        await asyncio.wait([handler])
        reply = None if handler.cancelled() else handler.result()
        if reply is None:
            raise exchange.broken()
        match fault.harm if fault is not None else None:
            case Harm.RESET_AFTER:
                raise exchange.broken()
            case Harm.SILENT_AFTER:
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
        """There is nothing to close."""


def attempt_in(body: bytes, start: int) -> AttemptId | None:
    """The attempt that the body of a `/run` call is about."""
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
        checksum=zlib.crc32(exchange.call.body or b""),
    )


async def _awaiting(work: Awaitable[Any]) -> Any:
    return await work
