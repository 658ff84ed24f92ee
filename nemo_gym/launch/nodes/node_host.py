"""The process on a node: it holds sockets and runs servers there for the launcher of a gym.

`python -m nemo_gym.launch.nodes.node_host` reads a `NodeDocument` from standard input, so that neither the token nor
the configuration is on a command line, in the environment or on disk. It dials the launcher, describes its machine, and
carries out requests. It ends, with all its servers, when the connection closes or its lease expires; and also with its
parent, if the pid of that is its argument.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import ssl
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.launch._spawners import Child, ProcessSpawner, ServerProcess
from nemo_gym.launch.early_start import start_fork_server
from nemo_gym.launch.environments import Environments
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.channel import BEAT_S, LEASE_S, Channel
from nemo_gym.launch.nodes.digest import digest_folder
from nemo_gym.launch.nodes.gpus import usable_gpus
from nemo_gym.launch.nodes.places import Moved, Places
from nemo_gym.launch.plan import REQUIREMENTS_FILE
from nemo_gym.launch.sockets import HeldSocket, PortRange, hold, hold_free
from nemo_gym.names import DIRECTORY_KEY, HEAD_SERVER, TLS_KEY
from nemo_gym.processes.cpus import usable_cpus
from nemo_gym.processes.ending import end_with_parent
from nemo_gym.tls import (
    context_trusting,
    is_valid_for,
    read_ca,
    require_usable,
    server_context,
    uses_tls,
)

_OUTPUT_CHUNK_BYTES = 64 * 1024
_SHOWN_WITHIN_S = 10.0
_LAST_OUTPUT_S = 0.5
"""Seconds that the output of an ended server may still take; a daemon of it may keep its output open."""


@dataclass(frozen=True, slots=True)
class NodeDocument:
    """The input of a node host."""

    host: str
    """The address of the launcher's control port."""
    port: int
    node: str
    """The name of this node."""
    token: str
    cookie_key: str
    config: dict[str, Any]
    """The resolved configuration, secrets included; the addresses follow with the requests."""
    code: list[str]
    """The folders whose code this node must have."""
    folder: str
    """The launcher's working folder."""
    lease_s: float = LEASE_S
    """Seconds after the last answered beat after which the node host ends."""
    moved: Moved | None = None
    """The folders that this node may have elsewhere."""

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> NodeDocument:
        # Errors of `validate_json` would show parts of a document that is cut, and it has the run's token.
        return TypeAdapter(cls).validate_python(json.loads(data))


class NodeHost:
    """Carries out the launcher's requests."""

    def __init__(
        self, given: NodeDocument, places: Places, channel: Channel, spawner: ProcessSpawner
    ) -> None:
        self._given = given
        self._places = places
        self._channel = channel
        self._spawner = spawner
        self._environments = Environments(self._announce)
        self._sockets: dict[int, HeldSocket] = {}
        self._children: dict[int, Child] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lease_until = asyncio.get_running_loop().time() + given.lease_s
        self._requests: dict[str, Callable[[dict[str, Any]], Awaitable[Any]]] = {
            "hold": self._hold,
            "spawn": self._spawn,
            "release": self._release,
        }

    async def run(self) -> None:
        """Serve the launcher until the connection closes or the lease expires."""
        self._start(self._beat())
        with contextlib.suppress(EOFError, TimeoutError):
            while True:
                message = await self._receive()
                if message["kind"] == "beat":
                    self._lease_until = max(self._lease_until, message["sent"] + self._given.lease_s)
                elif message["kind"] == "signal":
                    self._signal(message["child"], message["number"])
                else:
                    self._start(self._answer(message))

    async def close(self) -> None:
        """End all servers and release the sockets."""
        self._channel.close()
        await self._spawner.close()
        for task in self._tasks:
            task.cancel()
        for held in self._sockets.values():
            held.close()

    async def _receive(self) -> dict[str, Any]:
        """Return the next message. Raises `TimeoutError` when the lease expires."""
        receiving = asyncio.ensure_future(self._channel.receive())
        try:
            while not receiving.done():
                left_s = self._lease_until - asyncio.get_running_loop().time()
                if left_s <= 0:
                    raise TimeoutError
                await asyncio.wait([receiving], timeout=left_s)
            return receiving.result()
        finally:
            receiving.cancel()

    async def _beat(self) -> None:
        while True:
            now = asyncio.get_running_loop().time()
            self._channel.send({"kind": "beat", "sent": now, "load": os.getloadavg()[0]})
            await asyncio.sleep(BEAT_S)

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, message: dict[str, Any]) -> None:
        reply: dict[str, Any] = {"kind": "reply", "number": message["number"]}
        try:
            reply["value"] = await self._requests[message["kind"]](message)
        except GymError as error:
            reply["failure"] = error.failure.to_wire()
        except OSError as error:
            reply["failure"] = LaunchError(str(error), code="node_failed").failure.to_wire()
        self._channel.send(reply)

    async def _hold(self, message: dict[str, Any]) -> dict[str, Any]:
        """Listen for a replica, and let the launcher prove that it reaches this socket."""
        host, server = message["host"] or self._channel.own_host, message["server"]
        held = (
            hold(host, message["port"], holder_of=server)
            if message["port"]
            else hold_free(host, PortRange.from_config(self._given.config), holder_of=server)
        )
        self._sockets[message["socket"]] = held
        proof = secrets.token_hex(8)
        self._start(_show_once(held.listener, proof, server_context(self._given.config)))
        return {"port": held.port, "proof": proof}

    async def _release(self, message: dict[str, Any]) -> None:
        """Close the socket of a replica that was removed."""
        if message["socket"] in self._sockets:
            self._sockets.pop(message["socket"]).close()

    async def _spawn(self, message: dict[str, Any]) -> int:
        """Start a server and return its pid. Its output and its end are reported later."""
        script, number = Path(self._places.find_place(message["script"])), message["child"]
        requirements = script.parent / REQUIREMENTS_FILE
        python = None
        if requirements.is_file():
            python = await asyncio.to_thread(self._environments.choose, requirements)
        reader, writer = os.pipe()
        process = ServerProcess(
            script=script,
            search_path=[self._places.find_place(folder) for folder in message["search_path"]],
            sockets=[self._sockets[message["socket"]]],
            bootstrap=self._bootstrap(message),
            # The pipe by the name under which the spawner can open it like a log.
            log_path=Path(f"/proc/self/fd/{writer}"),
            python=python,
            variables=message["variables"],
        )
        try:
            child = await self._spawner.spawn(process)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        self._children[number] = child
        self._start(self._report(number, child, reader))
        return child.pid

    def _bootstrap(self, message: dict[str, Any]) -> Bootstrap:
        config = {**self._given.config, DIRECTORY_KEY: message["directory"], HEAD_SERVER: message["head"]}
        for name, kind, implementation, address in message["addresses"]:
            block = {**config[name][kind][implementation], **address}
            config[name] = {kind: {implementation: block}}
        given = self._given
        bootstrap = Bootstrap(message["server"], config, given.token, given.cookie_key, [])
        return replace(bootstrap, replica=message["replica"], generation=message["generation"])

    async def _report(self, number: int, child: Child, output: int) -> None:
        """Send the output of a server to the launcher while it runs, and its exit code at last."""
        reading = asyncio.create_task(self._forward(number, output))
        code = await child.exited
        await asyncio.wait([reading], timeout=_LAST_OUTPUT_S)
        reading.cancel()
        del self._children[number]
        self._channel.send({"kind": "exited", "child": number, "code": code})

    async def _forward(self, number: int, output: int) -> None:
        loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(output, "rb", buffering=0)
        )
        try:
            while chunk := await reader.read(_OUTPUT_CHUNK_BYTES):
                self._channel.send(
                    {"kind": "output", "child": number, "text": chunk.decode(errors="replace")}
                )
                await self._channel.drain()
        finally:
            transport.close()

    def _signal(self, number: int, signal: int) -> None:
        if number in self._children:
            self._children[number].signal(signal)

    def _announce(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")


async def _show_once(listener: socket.socket, proof: str, tls: ssl.SSLContext | None) -> None:
    """Answer the first connection to a held socket with `proof`."""
    connection, _ = await asyncio.get_running_loop().sock_accept(listener)
    await asyncio.to_thread(_show, connection, proof, tls)


def _show(connection: socket.socket, proof: str, tls: ssl.SSLContext | None) -> None:
    """Send `proof` to a client, over TLS if there is a context."""
    connection.settimeout(_SHOWN_WITHIN_S)
    with connection, contextlib.suppress(OSError):  # the launcher reports a failure
        opened = tls.wrap_socket(connection, server_side=True) if tls is not None else connection
        with opened:
            opened.sendall(proof.encode())


async def serve(given: NodeDocument) -> None:
    """Dial the launcher, and serve it until the end of the gym."""
    places = Places(given.moved)
    with contextlib.suppress(OSError):  # the nodes have no common folder
        os.chdir(places.find_place(given.folder))
    spawner = ProcessSpawner(start_fork_server())
    try:
        channel = await _dial(given)
        hello = _hello(given, places, _find_certified_address(given, channel))
    except BaseException:
        await spawner.close()
        raise
    host = NodeHost(given, places, channel, spawner)
    try:
        channel.send(hello)
        await host.run()
    finally:
        await host.close()


async def _dial(given: NodeDocument) -> Channel:
    """Connect to the launcher. Raises `ConfigError` for TLS files of this machine that servers could not use."""
    require_usable(given.config)
    tls = context_trusting(read_ca(given.config))
    reader, writer = await asyncio.open_connection(given.host, given.port, ssl=tls)
    return await Channel.open(reader, writer, given.token, "node")


def _find_certified_address(given: NodeDocument, channel: Channel) -> str:
    """Return the name of this node under which it must be called, because its certificate has no address.

    Empty without TLS, and if the certificate is valid for this machine's address. Raises `ConfigError` if it is valid
    for neither.
    """
    if not uses_tls(given.config) or is_valid_for(given.config[TLS_KEY], channel.own_host):
        return ""
    name = given.node.rpartition("@")[2]
    if is_valid_for(given.config[TLS_KEY], name):
        return name
    cert = given.config[TLS_KEY]["cert"]
    message = f"tls.cert: {cert} on {given.node} is valid neither for {channel.own_host} nor for {name}."
    remedy = "Make one with the address or the name of the host as its subjectAltName."
    raise ConfigError(message, code="invalid_config", remedy=remedy)


def _hello(given: NodeDocument, places: Places, address: str) -> dict[str, Any]:
    return {
        "kind": "hello",
        "node": given.node,
        "address": address,
        "pid": os.getpid(),
        "cpus": usable_cpus(),
        "gpus": usable_gpus(os.environ),
        "code": {folder: digest_folder(Path(places.find_place(folder))) for folder in given.code},
    }


def main() -> None:
    if len(sys.argv) > 1:
        end_with_parent(int(sys.argv[1]))
    given = NodeDocument.from_bytes(sys.stdin.buffer.read())
    try:
        asyncio.run(serve(given))
    except ConfigError as error:
        sys.exit(str(error))
    except (OSError, EOFError) as error:
        sys.exit(f"the launcher at {given.host}:{given.port} cannot be reached: {error}")


if __name__ == "__main__":
    main()
