"""The inline placement: every server of a configuration in one event loop, calls through memory, no ports.

The same apps and routes as with a process a server; only the transport differs. It starts in well under a second
and spends no CPU on sockets, and gives up what processes give: a server that blocks the loop blocks all of them, and
one that crashes takes the gym along. Made for notebooks, tests and small runs.

    with gym_inline(config) as gym:                  # from ordinary code; the loop runs in a thread
        row = gym.run("my_agent", task_row)

    async with inline(config) as gym:                # from a coroutine
        row = await gym.run("my_agent", task_row)
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import copy
import runpy
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import orjson
from pydantic import BaseModel

from nemo_gym import PARENT_DIR
from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.config.nodes import value_at
from nemo_gym.config.options import option_faults
from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.failures import ConfigError
from nemo_gym.head.server import HeadServer
from nemo_gym.launch.plan import RunKeys, StartableInstance
from nemo_gym.processes.event_loop_thread import EventLoopThread
from nemo_gym.serving.base import SimpleServer
from nemo_gym.serving.garbage import collected_rarely
from nemo_gym.transport import InMemoryTransport
from nemo_gym.transport.directory import base_url
from nemo_gym.transport.server_client import HEAD_SERVER_KEY_NAME, ServerClient, process_transport

_HOST = "inline"
"""The host in the addresses of inline servers; nothing listens there."""
_T = TypeVar("_T")


class InlineConfig(Protocol):
    """What is needed of a loaded configuration."""

    @property
    def servers(self) -> Sequence[StartableInstance]: ...
    @property
    def data(self) -> Mapping[str, Any]: ...


@dataclass(slots=True)
class InlineGym:
    """The servers of a configuration in this event loop."""

    config: dict[str, Any]
    """The resolved configuration, with an address of every server, secrets included."""
    token: str
    transport: InMemoryTransport
    servers: dict[str, SimpleServer] = field(default_factory=dict)

    def client(self) -> ServerClient:
        return ServerClient.connect(self.config, transport=self.transport, token=self.token)

    async def run(self, agent: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """The scored row of one attempt; raises `UpstreamError` with the root cause when it failed."""
        reply = await self.client().post(agent, "/run", json=dict(row))
        reply.raise_for_status()
        scored: dict[str, Any] = orjson.loads(reply.body)
        return scored


@contextlib.asynccontextmanager
async def inline(config: InlineConfig) -> AsyncIterator[InlineGym]:
    """All servers of `config`, started; stopped with the block. One gym at a time in a process."""
    data = copy.deepcopy(dict(config.data))
    keys = RunKeys.of_config(data)
    addresses = _give_addresses(data, config.servers)
    gym = InlineGym(data, keys.token, InMemoryTransport())
    bootstrap.set_current(Bootstrap(_HOST, data, keys.token, keys.cookie_key, []))
    try:
        async with contextlib.AsyncExitStack() as started:
            for name, server_class in _classes(config.servers, data):
                server = server_class(config=server_class.config_of(name, data), server_client=gym.client())
                gym.transport.apps[addresses[name]] = server.setup_webserver()
                await started.enter_async_context(server.alive())
                gym.servers[name] = server
            with collected_rarely():
                yield gym
    finally:
        bootstrap.set_current(None)
        await process_transport().close()


@contextlib.contextmanager
def gym_inline(config: InlineConfig) -> Iterator[BlockingGym]:
    """An inline gym for ordinary code: its event loop runs in a thread of its own."""
    with EventLoopThread("inline gym") as loop:
        manager = inline(config)
        gym = loop.run(manager.__aenter__())
        try:
            yield BlockingGym(gym, loop.run)
        finally:
            loop.run(manager.__aexit__(None, None, None))


class BlockingGym:
    """An `InlineGym` whose methods wait for their results."""

    def __init__(self, gym: InlineGym, wait_for: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.gym = gym
        self._wait_for = wait_for

    def run(self, agent: str, row: Mapping[str, Any]) -> dict[str, Any]:
        """The scored row of one attempt; raises `UpstreamError` with the root cause when it failed."""
        scored: dict[str, Any] = self._wait_for(self.gym.run(agent, row))
        return scored

    def run_all(
        self, agent: str, rows: Sequence[Mapping[str, Any]], in_parallel: int = 64
    ) -> list[dict[str, Any]]:
        """The scored rows, in the order of the tasks; the first attempt that failed raises."""

        async def all_of_them() -> list[dict[str, Any]]:
            window = asyncio.Semaphore(in_parallel)

            async def one(row: Mapping[str, Any]) -> dict[str, Any]:
                async with window:
                    return await self.gym.run(agent, row)

            return await asyncio.gather(*(one(row) for row in rows))

        scored: list[dict[str, Any]] = self._wait_for(all_of_them())
        return scored


def _give_addresses(config: dict[str, Any], instances: Sequence[StartableInstance]) -> dict[str, str]:
    """Write an address into the block of every server; server name → base URL."""
    blocks = {each.name: config[each.name][each.kind][each.implementation] for each in instances}
    blocks[HEAD_SERVER_KEY_NAME] = config.setdefault(HEAD_SERVER_KEY_NAME, {})
    for port, block in enumerate(blocks.values(), start=1):
        block |= {"host": _HOST, "port": port}
    return {name: base_url(block["host"], block["port"]) for name, block in blocks.items()}


def _classes(
    instances: Sequence[StartableInstance], data: Mapping[str, Any]
) -> Iterator[tuple[str, type[SimpleServer]]]:
    """Every server's name and class. Raises `ConfigErrors` for options that its class does not have."""
    yield HEAD_SERVER_KEY_NAME, HeadServer
    loaded: dict[Path, type[SimpleServer]] = {}
    for each in instances:
        script = each.directory / each.entrypoint
        if script not in loaded:
            loaded[script] = load_server_class(script)
        path = (each.name, each.kind, each.implementation)
        faults = option_faults(config_class_of(loaded[script]), value_at(data, path), path, _HOST)
        if problems := [Problem(None, fault.message, fault.remedy) for fault in faults]:
            raise ConfigErrors(problems)
        yield each.name, loaded[script]


def load_server_class(script: Path) -> type[SimpleServer]:
    """The class whose `run_webserver()` the file ends with. Raises `ConfigError` where there is none."""
    for folder in (str(PARENT_DIR), str(script.parents[2]), str(script.parent)):
        if folder not in sys.path:
            sys.path.append(folder)
    name = _class_run_by(ast.parse(script.read_text(encoding="utf-8"), str(script)))
    found = runpy.run_path(str(script), run_name=f"inline_{script.parent.name}").get(name) if name else None
    if not (isinstance(found, type) and issubclass(found, SimpleServer)):
        raise ConfigError(
            f"{script} can't be placed inline: it does not end with `MyServer.run_webserver()`",
            code="not_inline",
            remedy="Run it with a process a server: +placement=process.",
        )
    return found


def config_class_of(server_class: type[SimpleServer]) -> type[BaseModel]:
    """The class of a server's options."""
    annotation = server_class.model_fields["config"].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, BaseModel)
    return annotation


def _class_run_by(tree: ast.AST) -> str | None:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "run_webserver"
            and isinstance(node.func.value, ast.Name)
        ):
            return node.func.value.id
    return None
