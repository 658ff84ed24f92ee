"""All nodes of a gym: their hosts are started, connected, and started again after a loss."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.channel import Channel
from nemo_gym.launch.nodes.digest import digest_folder
from nemo_gym.launch.nodes.node import Node
from nemo_gym.launch.nodes.node_host import NodeDocument
from nemo_gym.launch.sockets import HeldSocket

_HELLO_WITHIN_S = 10.0
_HELLO_BYTES = 1 << 20
"""A peer that has proved nothing yet cannot make the launcher keep more."""
_FIRST_RESTART_S = 1.0
_LONGEST_RESTART_S = 60.0
_WAITING_NOTE_S = 10.0
_LOOK_S = 0.02
"""Seconds between two looks at the nodes that start."""
_LOADS_EVERY_S = 3.0


@dataclass(slots=True)
class Nodes:
    """The nodes, and the port at which their hosts connect."""

    nodes: Sequence[Node]
    document: NodeDocument = field(repr=False)
    """The input of every node host, apart from the node's name."""
    announce: Callable[[str], None]
    on_loads: Callable[[], object] = lambda: None
    """Called every few seconds, when the nodes have sent their loads, and when a node has connected."""
    _code: dict[str, str | None] = field(init=False)
    """Folder → the digest of its code here."""
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _server: asyncio.Server | None = None

    def __post_init__(self) -> None:
        self._code = {folder: digest_folder(Path(folder)) for folder in self.document.code}

    async def start(self, control: HeldSocket, timeout_s: float, tls: ssl.SSLContext | None = None) -> None:
        """Start all node hosts, and wait until they are up. Raises the `LaunchError` of one that is not.

        `tls`: the context for their connections.
        """
        self._server = await asyncio.start_server(self._accept, sock=control.listener, ssl=tls)
        self._tasks = [asyncio.create_task(self._keep(node), name=f"node {node.name}") for node in self.nodes]
        self._tasks.append(asyncio.create_task(self._report_loads(), name="loads of nodes"))
        began, next_note_s = asyncio.get_running_loop().time(), _WAITING_NOTE_S
        while late := ", ".join(node.name for node in self.nodes if not node.is_up):
            done, _ = await asyncio.wait(self._tasks, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            waited_s = asyncio.get_running_loop().time() - began
            if waited_s > timeout_s:
                raise LaunchError(
                    f"{late} did not connect within {timeout_s:g} s.",
                    code="node_timeout",
                    remedy="Check that they reach advertised_host, or raise startup_timeout_s for a busy cluster.",
                )
            if waited_s >= next_note_s:
                self.announce(f"waiting for {late} since {waited_s:.0f} s")
                next_note_s += _WAITING_NOTE_S

    async def close(self) -> None:
        """End all node hosts, and wait until they have ended."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()

    async def _keep(self, node: Node) -> None:
        """Start a node host again whenever it is lost. Raises `LaunchError` if it never came up."""
        pause_s = _FIRST_RESTART_S
        while True:
            losses = node.losses
            try:
                await node.live_once(replace(self.document, node=node.name))
            except (LaunchError, OSError) as error:  # a log that cannot be written, too
                if not node.losses:
                    raise
                if pause_s == _FIRST_RESTART_S:
                    self.announce(f"the node {node.name} does not come back yet: {error}")
            if node.losses > losses:
                self.announce(f"the node {node.name} was lost; its replicas are started elsewhere")
                pause_s = _FIRST_RESTART_S
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_RESTART_S, 2.0 * pause_s)

    async def _report_loads(self) -> None:
        while True:
            await asyncio.sleep(_LOADS_EVERY_S)
            self.on_loads()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HELLO_WITHIN_S):
                channel = await Channel.open(reader, writer, self.document.token, "head")
                hello = await channel.receive(_HELLO_BYTES)
        except (EOFError, TimeoutError, LaunchError):
            writer.transport.abort()  # no node of this run
            return
        except asyncio.CancelledError:  # the gym has ended
            writer.transport.abort()
            raise
        for node in self.nodes:
            if node.name == hello["node"] and node.awaits_connection:
                node.connect(channel, hello, self._code)
                self.on_loads()  # the record of the gym shows it at once
                return
        channel.close()
