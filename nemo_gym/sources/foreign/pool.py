"""Hosts that attempts take in turns. A host serves one attempt at a time, and is used for many.

A host is ended after a failure, after a number of attempts, when it has grown too large, and when an attempt has left
processes behind.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from nemo_gym.isolation.confinement import MIB
from nemo_gym.isolation.execution import ConfinedRunner
from nemo_gym.sources.foreign.forwarding import Forwarding
from nemo_gym.sources.foreign.process import HostProcess, HostProgram

__all__ = ["HostPool"]


@dataclass(slots=True)
class HostPool:
    """At most `most` hosts of one program."""

    program: HostProgram
    most: int
    most_attempts: int = 1000
    """Attempts of one host; importing an environment costs a second or two."""
    recycled_mib: int = 1024
    """Memory of a host at which it is ended after its attempt."""
    started: int = 0
    """Hosts that were started."""
    _idle: list[tuple[HostProcess, int]] = field(default_factory=list)
    _taken: dict[HostProcess, int] = field(default_factory=dict)
    _slots: asyncio.Semaphore = field(init=False)
    _runner: ConfinedRunner | None = None
    _command: list[str] | None = None
    _preparing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _forwarding: Forwarding | None = None

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.most)

    async def prepare(self) -> None:
        """Find the interpreter and the isolation of hosts, and open the way to their address. Raises `ConfigError`."""
        async with self._preparing:
            if self._runner is not None:
                return
            if self.program.address is not None:
                self._forwarding = await Forwarding.open(self.program.address)
                self.program = self._forwarding.lend(self.program)
            runner = await asyncio.to_thread(self.program.build_runner)
            self._command = await asyncio.to_thread(self.program.build_command)
            await runner.isolation()
            self._runner = runner

    async def acquire(self) -> HostProcess:
        """Return a host for one attempt; wait for one if all are taken. Raises `ForeignError` and `ConfigError`."""
        await self._slots.acquire()
        try:
            host, processes = await self._take()
        except BaseException:
            self._slots.release()
            raise
        host.attempts += 1
        self._taken[host] = processes
        return host

    async def release(self, host: HostProcess, *, is_reusable: bool = True) -> None:
        """Give a host back. One that must not be used again is killed. Idempotent."""
        processes = self._taken.pop(host, None)
        if processes is None:
            return
        try:
            if is_reusable and self._is_fit(host, processes):
                self._idle.append((host, processes))
            else:
                await host.close()
        finally:
            self._slots.release()

    async def close(self) -> None:
        """Kill all hosts."""
        hosts = [*(host for host, _ in self._idle), *self._taken]
        self._idle.clear()
        self._taken.clear()
        await asyncio.gather(*(host.close() for host in hosts))
        if self._forwarding is not None:
            await self._forwarding.close()

    async def _take(self) -> tuple[HostProcess, int]:
        while self._idle:
            host, processes = self._idle.pop()
            if host.is_usable:
                return host, processes
            await host.close()
        await self.prepare()
        assert self._runner is not None
        self.started += 1
        host = await HostProcess.start(self.program, self._runner, self._command)
        return host, host.count_processes()

    def _is_fit(self, host: HostProcess, processes: int) -> bool:
        return (
            host.is_usable
            and host.attempts < self.most_attempts
            and host.count_processes() <= processes
            and host.count_memory() < self.recycled_mib * MIB
        )
