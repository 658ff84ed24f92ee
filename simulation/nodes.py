"""A simulated gym on two machines, of which one is cut off from the other for a while.

The machine has the agent, the model server and the first replica of the environment, and it reaches an engine, so that
rollouts go on there while it is cut off. The node host and the launcher are played here, with the times of real ones:
the servers end with their lease, and the launcher places them elsewhere when it takes the node for lost. Directory,
callers and access are the gym's own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.launch.nodes import channel
from nemo_gym.names import DIRECTORY_KEY
from nemo_gym.serving.base import SimpleServer
from nemo_gym.serving.replica_access import ReplicaAccess
from nemo_gym.transport import Transport
from nemo_gym.transport.moving_caller import MovingCaller
from nemo_gym.transport.server_client import ServerClient
from simulation.events import Kind
from simulation.faults import AGENT, ENVIRONMENT, MODEL, Partition
from simulation.monitor import Monitor
from simulation.network import Network

NODE = "node"
"""The machine that is cut off; all other servers are on the launcher's."""
_ON_NODE = (MODEL, ENVIRONMENT, AGENT)
_BACK_WITHIN_S = 5.0
"""Seconds after a loss in which the servers start elsewhere and every caller learns their addresses."""

OpenReplica = Callable[[str, int, int], Awaitable[str]]
"""Starts a replica (server, number, generation) on the launcher's machine, and returns its origin."""


class SimulatedNodes:
    """The node, and the directory of the gym."""

    def __init__(self, network: Network, monitor: Monitor, folder: Path, open_replica: OpenReplica) -> None:
        self._network = network
        self._monitor = monitor
        self._file = folder / "directory.json"
        self._open_replica = open_replica
        self._document: dict[str, Any] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def publish_first(self, config: dict[str, Any], head_url: str, servers: dict[str, list[str]]) -> None:
        """Write the directory of `servers` (name → origins) into `config`."""
        pairs = {name: [(origin, 1) for origin in origins] for name, origins in servers.items()}
        self._document = {"file": str(self._file), "version": 0, "head": head_url, "servers": pairs}
        self._publish()
        config[DIRECTORY_KEY] = self._document

    def start_partition(self, fault: Partition) -> None:
        """Cut the node off now."""
        self._tasks.append(asyncio.get_running_loop().create_task(self._cut(fault.seconds)))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _cut(self, seconds: float) -> None:
        lease_s, lost_after_s = channel.LEASE_S, channel.LOST_AFTER_S
        lost_at = lost_after_s if seconds > lost_after_s else max(seconds, lease_s)
        is_lost = seconds > lease_s
        away_s = lost_at + _BACK_WITHIN_S if is_lost else seconds
        for server in _ON_NODE:
            self._monitor.record(Kind.CRASHED, server, detail=away_s)
        self._network.link.clear()
        steps = [(seconds, self._network.link.set)]
        if is_lost:
            steps += [(lease_s, self._end_servers), (lost_at, self._fence)]
        at = 0.0
        for when, step in sorted(steps, key=lambda each: each[0]):
            await asyncio.sleep(when - at)
            at = when
            step()
        if is_lost:
            await self._start_elsewhere()

    def _end_servers(self) -> None:
        self._network.end_node(NODE)

    def _fence(self) -> None:
        for server in _ON_NODE:
            origin, generation = self._document["servers"][server][0]
            self._document["servers"][server][0] = (origin, generation + 1)
            self._monitor.record(Kind.FENCED, server, detail=origin)
        self._publish()

    async def _start_elsewhere(self) -> None:
        for server in _ON_NODE:
            _, generation = self._document["servers"][server][0]
            origin = await self._open_replica(server, 0, generation)
            self._document["servers"][server][0] = (origin, generation)
            self._publish()

    def _publish(self) -> None:
        self._document["version"] += 1
        self._file.write_text(json.dumps(self._document))


def connect_replica(config: dict[str, Any], transport: Transport, name: str, generation: int) -> ServerClient:
    """Return the client of a replica, whose calls name it."""
    bootstrap.set_current(Bootstrap(name, config, "", "", [], generation=generation))
    try:
        return ServerClient.connect(config, transport=transport, token=None)
    finally:
        bootstrap.set_current(None)


def make_replica(server: SimpleServer, generation: int) -> None:
    """Let a server refuse calls to other generations, and follow the directory."""
    access, caller = server.middleware.access, server.server_client.caller()
    assert isinstance(caller, MovingCaller)
    access.sessions.has_lost = caller.directory.has_lost
    server.middleware.access = ReplicaAccess(
        server_name=access.server_name,
        cookies=access.cookies,
        sessions=access.sessions,
        authenticates_sessions=access.authenticates_sessions,
        generation=generation,
    )
    caller.follow_moves()
