"""One node as the launcher sees it: the start of its node host, requests to it, and its loss."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nemo_gym.config.keys import HostKeys
from nemo_gym.failures import Failure
from nemo_gym.launch import _logs as logs
from nemo_gym.launch._spawners import Child
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.channel import LOST_AFTER_S, Channel
from nemo_gym.launch.nodes.hosts import Hosts
from nemo_gym.launch.nodes.node_host import NodeDocument
from nemo_gym.launch.nodes.placing import Room, build_room


class NodeState(StrEnum):
    """The state of a node."""

    STARTING = "starting"
    """Its command runs, and its node host has not said hello."""
    UP = "up"
    LOST = "lost"
    """Its connection was closed or silent. Its host is started again, and has not said hello."""


class NodeLostError(LaunchError):
    """The node was lost before it answered a request."""


@dataclass(slots=True)
class RemoteServer:
    """A server process on a node."""

    child: Child
    log_path: Path


class Node:
    """A machine with a node host."""

    def __init__(self, host: HostKeys, hosts: Hosts, log_path: Path, on_lost: Callable[[Node], None]) -> None:
        """`hosts` start its node host. `on_lost` is called after each loss."""
        self.host = host
        self.name = host.host
        self.log_path = log_path
        self.room = Room(self.name, {})
        self.state = NodeState.STARTING
        self.address = ""
        """The address under which the launcher reaches its servers."""
        self.load = 0.0
        """The load average of its last minute."""
        self.losses = 0
        self._hosts = hosts
        self._on_lost = on_lost
        self._channel: Channel | None = None
        self._connected: asyncio.Future[None] | None = None
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._servers: dict[int, RemoteServer] = {}

    @property
    def is_up(self) -> bool:
        return self.state is NodeState.UP

    async def live_once(self, document: NodeDocument) -> None:
        """Start the node host, and return when the node is lost. Raises `LaunchError` if it does not come up."""
        connected = self._connected = asyncio.get_running_loop().create_future()
        began = logs.size(self.log_path)
        started = await self._hosts.start(self.name, document.to_bytes(), self.log_path)
        try:
            ended = asyncio.ensure_future(started.wait())
            await asyncio.wait([connected, ended], return_when=asyncio.FIRST_COMPLETED)
            if not connected.done():
                raise LaunchError(
                    f"{logs.explain_death(self.log_path, since=began)}\nthe node host on {self.name} has ended with "
                    f"{ended.result()} before it was connected.",
                    code="node_not_started",
                    remedy=self._hosts.remedy(self.name),
                    peer=self.name,
                )
            connected.result()
            serving = asyncio.ensure_future(self._serve())
            try:
                watched: list[asyncio.Future[Any]] = [serving, ended] if started.ends_node else [serving]
                await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
                if serving.done():
                    serving.result()
            finally:
                serving.cancel()
        finally:
            self._lose()
            await started.end()

    def connect(self, channel: Channel, hello: Mapping[str, Any], code: Mapping[str, str | None]) -> None:
        """Take the connection of the node host. `code`: folder → digest, as the launcher has it."""
        assert self._connected is not None
        differing = [folder for folder, digest in code.items() if hello["code"].get(folder) != digest]
        if differing:
            self._connected.set_exception(
                LaunchError(
                    f"{self.name} has other code in {', '.join(differing)}, or none.",
                    code="different_code",
                    remedy="Share the folder, or copy the launcher's to every host, at the same path.",
                    peer=self.name,
                )
            )
            channel.close()
            return
        self.room = build_room(self.host, hello["cpus"], hello["gpus"])
        self._channel, self.address = channel, hello["address"] or channel.peer_host
        self.state = NodeState.UP
        self._connected.set_result(None)

    @property
    def awaits_connection(self) -> bool:
        return self._connected is not None and not self._connected.done()

    async def ask(self, kind: str, **fields: Any) -> Any:
        """Send a request and return its result. Raises its failure as `LaunchError`, `NodeLostError`."""
        if self._channel is None:
            raise self._build_lost_error()
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        self._channel.send({"kind": kind, "number": number, **fields})
        try:
            return await answer
        finally:
            self._answers.pop(number, None)

    async def spawn(self, log_path: Path, **fields: Any) -> Child:
        """Start a server process there. Raises as `ask` does."""
        number = next(self._numbers)
        child = Child(0, lambda signal: self._signal(number, signal))
        self._servers[number] = RemoteServer(child, log_path)
        asking = asyncio.ensure_future(self.ask("spawn", child=number, **fields))
        try:
            child.pid = await asyncio.shield(asking)
        except asyncio.CancelledError:  # it may be starting already
            asking.add_done_callback(lambda _: self._signal(number, signal.SIGKILL))
            asking.add_done_callback(_note_failure)
            raise
        except BaseException:
            self._servers.pop(number, None)
            raise
        return child

    def release(self, socket: int) -> None:
        """Close a held socket there, if the node is not lost."""
        if self._channel is not None:
            self._channel.send({"kind": "release", "number": next(self._numbers), "socket": socket})

    def stop(self) -> None:
        """Close the connection, which ends the node host and its servers."""
        if self._channel is not None:
            self._channel.close()

    def _signal(self, number: int, signal: int) -> None:
        if self._channel is not None:
            self._channel.send({"kind": "signal", "child": number, "number": signal})

    async def _serve(self) -> None:
        """Handle messages until the connection closes or is silent for too long."""
        assert self._channel is not None
        with contextlib.suppress(EOFError, TimeoutError):
            while True:
                self._handle(await asyncio.wait_for(self._channel.receive(), LOST_AFTER_S))

    def _handle(self, message: Mapping[str, Any]) -> None:
        assert self._channel is not None
        match message["kind"]:
            case "beat":
                self.load = message["load"]
                self._channel.send({"kind": "beat", "sent": message["sent"]})
            case "output":
                with self._servers[message["child"]].log_path.open("a", encoding="utf-8") as file:
                    file.write(message["text"])
            case "exited":
                server = self._servers.pop(message["child"])
                server.child.exited.set_result(message["code"])
            case "reply":
                self._resolve(message)

    def _resolve(self, reply: Mapping[str, Any]) -> None:
        answer = self._answers.get(reply["number"])
        if answer is None or answer.done():
            return
        failure = Failure.from_wire(reply.get("failure"))
        if failure is None:
            answer.set_result(reply["value"])
        else:
            error = LaunchError(
                f"on {self.name}: {failure.message}", code=failure.code, remedy=failure.remedy
            )
            answer.set_exception(error)

    def _lose(self) -> None:
        """Note that the node is lost: its requests fail, its replicas are told of, and its servers have ended."""
        if self._channel is None:
            return
        self._channel.close()
        self._channel, self.state = None, NodeState.LOST
        self.losses += 1
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(self._build_lost_error())
        self._on_lost(self)
        servers, self._servers = self._servers, {}
        for server in servers.values():
            server.child.reason = f"the node {self.name} was lost"
            if not server.child.exited.done():
                server.child.exited.set_result(-signal.SIGKILL)

    def _build_lost_error(self) -> NodeLostError:
        return NodeLostError(f"the node {self.name} was lost", code="node_lost", peer=self.name)


def _note_failure(asking: asyncio.Future[Any]) -> None:
    """Read the exception of a request that nobody awaits any more."""
    if not asking.cancelled():
        asking.exception()
