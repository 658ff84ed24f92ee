"""How a replica gets its place on a node, and leaves it.

Room is taken on a node, its reservation is made, a socket is held there, and the launcher proves that the socket is
reached under its address. A replica of a lost node goes the same way again, to another node.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.hosts import RAY_FAILED, RAY_IS_GONE, Hosts
from nemo_gym.launch.nodes.node import Node, NodeLostError
from nemo_gym.launch.nodes.nodes import Nodes
from nemo_gym.launch.nodes.placing import Room, place_all, rank_rooms, show_amounts
from nemo_gym.launch.nodes.replicas import Replica
from nemo_gym.transport.directory import base_url

_DIAL_WITHIN_S = 10.0
_UNREACHABLE = "node_unreachable"
_PASSING = (_UNREACHABLE, RAY_FAILED, RAY_IS_GONE)
"""Codes of failures that a later attempt may not have."""
_ROOM_NOTE_S = 5.0
_ROOM_PAUSE_S = 0.5
"""Seconds between two looks for a node with room for a replica."""


@dataclass(slots=True)
class Moving:
    """Gives replicas their places on nodes."""

    hosts: Hosts
    nodes: Nodes
    announce: Callable[[str], None]
    timeout_s: float
    """Seconds that a replica waits for a node with room."""
    tls: ssl.SSLContext | None = None
    """That of calls to servers."""
    _socket_numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def move_in(self, replicas: Sequence[Replica]) -> None:
        """Place replicas that have no place.

        Raises `ConfigErrors` if the nodes have no room for all of them, `LaunchError` if a socket is not reached.
        """
        found = {replica.key: replica for replica in replicas}
        wanted = {key: replica.placement for key, replica in found.items()}
        placed = place_all(wanted, [node.room for node in self.nodes.nodes if node.is_up])
        moves = (self._place(found[key], room) for key, room in placed.items())
        for outcome in await asyncio.gather(*moves, return_exceptions=True):
            if outcome is not None:
                raise outcome

    async def move_out(self, replicas: Sequence[Replica]) -> None:
        """Close the sockets of retired replicas whose processes have ended, and free their room."""
        for replica in replicas:
            if replica.node is not None:
                with contextlib.suppress(NodeLostError):  # its sockets are closed
                    await replica.node.ask("release", socket=replica.socket)
            self.hosts.release(replica.key)
        for node in self.nodes.nodes:
            for replica in replicas:
                node.room.leave(replica.key)

    async def find_room(self, replica: Replica) -> None:
        """Place the replica on a node with room. Raises `LaunchError` if none has room for too long."""
        began, is_announced = asyncio.get_running_loop().time(), False
        while not await self._take_room(replica):
            waited_s = asyncio.get_running_loop().time() - began
            if waited_s > self.timeout_s:
                raise LaunchError(
                    f"no node has room for `{replica.key.server}` since {self.timeout_s:g} s",
                    code="no_room",
                    remedy="Bring the lost hosts back, or lower its `placement`.",
                    peer=replica.key.server,
                )
            if waited_s > _ROOM_NOTE_S and not is_announced:
                self.announce(
                    f"{replica.key.server} waits for a node with {show_amounts(replica.placement.needs)} free"
                )
                is_announced = True
            await asyncio.sleep(_ROOM_PAUSE_S)

    async def _place(self, replica: Replica, room: Room) -> None:
        """Place the replica where `room` is taken for it, or elsewhere. Raises `LaunchError` if no node has room."""
        if not await self._use(room, replica):
            await self.find_room(replica)

    async def _take_room(self, replica: Replica) -> bool:
        """Place the replica on a node, and return whether one has room and is reached."""
        rooms = [node.room for node in self.nodes.nodes if node.is_up]
        for room in rank_rooms(replica.key, replica.placement, rooms):
            room.take(replica.key, replica.placement)
            if await self._use(room, replica):
                return True
        return False

    async def _use(self, room: Room, replica: Replica) -> bool:
        """Use the room that is taken for the replica. Return False and leave it if it is in use, or not reached."""
        node = next(node for node in self.nodes.nodes if node.name == room.name)
        try:
            gpus = await self.hosts.reserve(room.name, replica.key, replica.placement.needs)
            if gpus is None:
                room.leave(replica.key)
                return False
            if gpus:
                room.gpus[replica.key] = gpus
            await self._hold(replica, node)
        except BaseException as error:
            room.leave(replica.key)
            self.hosts.release(replica.key)
            if isinstance(error, LaunchError) and error.failure.code in _PASSING and replica.url:
                # The node was reached before: it is being lost too, or comes back.
                self.announce(f"{error.failure.message}; another attempt follows")
                return False
            raise
        return True

    async def _hold(self, replica: Replica, node: Node) -> None:
        """Hold a socket for the replica on `node`, and prove that it is reached. Raises `LaunchError`."""
        block = replica.instance.config
        replica.socket = next(self._socket_numbers)
        held = await node.ask(
            "hold",
            socket=replica.socket,
            server=replica.key.server,
            host=block.get("host"),
            port=block.get("port") if replica.key.number == 0 else None,
        )
        try:
            await _dial_back(node, replica.key.server, held["port"], held["proof"], self.tls)
        except LaunchError:
            node.release(replica.socket)
            raise
        replica.node, replica.url = node, base_url(node.address, held["port"], is_tls=self.tls is not None)


async def _dial_back(node: Node, server: str, port: int, proof: str, tls: ssl.SSLContext | None) -> None:
    """Connect to a held socket under its advertised address. Raises `LaunchError` unless it answers with `proof`."""
    problem = "another program answers there"
    try:
        async with asyncio.timeout(_DIAL_WITHIN_S):
            reader, writer = await asyncio.open_connection(node.address, port, ssl=tls)
            found = await reader.read(len(proof))
            writer.close()
        if found.decode(errors="replace") == proof:
            return
    except ssl.SSLCertVerificationError as error:
        problem = f"its certificate is refused: {error.verify_message}"
    except (OSError, TimeoutError) as error:
        problem = str(error) or f"no answer within {_DIAL_WITHIN_S:g} s"
    raise LaunchError(
        f"`{server}` on {node.name} cannot be reached at {node.address}:{port}: {problem}",
        code=_UNREACHABLE,
        remedy="Open the ports between the machines (port_range_low, port_range_high), or correct the server's `host`.",
        peer=node.name,
    )
