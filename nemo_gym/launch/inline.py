"""The inline placement: every server of a configuration in one event loop, calls through memory, no ports.

The apps and routes are those of the process placement; only the transport differs. It starts in well under a second
and spends no CPU on sockets. But a server that blocks the loop blocks all of them, and a crash ends the whole gym. It
is meant for notebooks, tests and small runs.

    with gym_inline(config) as gym:                  # from blocking code; the loop runs in a thread
        row = gym.run("my_agent", task_row)

    async with inline(config) as gym:                # from a coroutine
        row = await gym.run("my_agent", task_row)
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym.config import bootstrap
from nemo_gym.config.addresses import IN_MEMORY_HOST
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.config.options import option_faults
from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.config.servers import ServerInstance
from nemo_gym.head.server import HeadServer
from nemo_gym.json_objects import parse_json
from nemo_gym.launch._implementation import load_server_class
from nemo_gym.launch.gym import LaunchableConfig
from nemo_gym.launch.plan import RunKeys
from nemo_gym.launch.server_code import describe_code
from nemo_gym.names import CODE_KEY, TLS_KEY
from nemo_gym.processes.event_loop_thread import EventLoopThread
from nemo_gym.rows.forms import AnyRow
from nemo_gym.serving.base import SimpleServer
from nemo_gym.serving.garbage import collected_rarely
from nemo_gym.transport import InMemoryTransport
from nemo_gym.transport.directory import base_url
from nemo_gym.transport.pools import close_transports
from nemo_gym.transport.server_client import HEAD_SERVER_KEY_NAME, ServerClient


@dataclass(slots=True)
class InlineGym:
    """The servers of a configuration in this event loop."""

    config: dict[str, Any]
    """The resolved configuration with every address, secrets included."""
    token: str
    transport: InMemoryTransport
    servers: dict[str, SimpleServer] = field(default_factory=dict)

    def client(self) -> ServerClient:
        return ServerClient.connect(self.config, transport=self.transport, token=self.token)

    async def run(self, agent: str, row: AnyRow) -> dict[str, Any]:
        """Run one attempt and return its scored row; raises `UpstreamError` with the root cause if it failed."""
        reply = await self.client().post(agent, "/run", json=dict(row))
        reply.raise_for_status()
        scored: dict[str, Any] = parse_json(reply.body)
        return scored


@contextlib.asynccontextmanager
async def inline(config: LaunchableConfig) -> AsyncIterator[InlineGym]:
    """Start all servers of `config`; the end of the block stops them. A process can run one such gym at a time."""
    data = copy.deepcopy(dict(config.data))
    data.pop(TLS_KEY, None)  # nothing listens
    data[CODE_KEY] = describe_code(config.servers, Path.cwd())
    keys = RunKeys.from_config(data)
    addresses = _give_addresses(data, config.servers)
    gym = InlineGym(data, keys.token, InMemoryTransport())
    bootstrap.set_current(Bootstrap(IN_MEMORY_HOST, data, keys.token, keys.cookie_key, []))
    try:
        async with contextlib.AsyncExitStack() as started:
            for name, server_class in _classes(config.servers):
                server = server_class(
                    config=server_class.build_server_config(name, data), server_client=gym.client()
                )
                gym.transport.apps[addresses[name]] = server.finish_app()
                await started.enter_async_context(server.alive())
                gym.servers[name] = server
            with collected_rarely():
                yield gym
    finally:
        bootstrap.set_current(None)
        await close_transports()


@contextlib.contextmanager
def gym_inline(config: LaunchableConfig) -> Iterator[BlockingGym]:
    """An inline gym for blocking code: its event loop runs in a thread."""
    with EventLoopThread("inline gym") as loop:
        manager = inline(config)
        gym = loop.run(manager.__aenter__())
        try:
            yield BlockingGym(gym, loop.run)
        finally:
            loop.run(manager.__aexit__(None, None, None))


class BlockingGym:
    """An `InlineGym` with blocking methods."""

    def __init__(self, gym: InlineGym, wait_for: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.gym = gym
        self._wait_for = wait_for

    def run(self, agent: str, row: AnyRow) -> dict[str, Any]:
        """Run one attempt and return its scored row; raises `UpstreamError` with the root cause if it failed."""
        scored: dict[str, Any] = self._wait_for(self.gym.run(agent, row))
        return scored


def _give_addresses(config: dict[str, Any], instances: Sequence[ServerInstance]) -> dict[str, str]:
    """Write an address into the block of every server, and return server name → base URL."""
    blocks = {each.name: config[each.name][each.kind][each.implementation] for each in instances}
    blocks[HEAD_SERVER_KEY_NAME] = config.setdefault(HEAD_SERVER_KEY_NAME, {})
    for port, block in enumerate(blocks.values(), start=1):
        block |= {"host": IN_MEMORY_HOST, "port": port}
    return {name: base_url(block["host"], block["port"]) for name, block in blocks.items()}


def _classes(instances: Sequence[ServerInstance]) -> Iterator[tuple[str, type[SimpleServer]]]:
    """Yield every server's name and class. Raises `ConfigErrors` for options that its class does not have."""
    yield HEAD_SERVER_KEY_NAME, HeadServer
    loaded: dict[Path, type[SimpleServer]] = {}
    for each in instances:
        script = each.directory / each.entrypoint
        if script not in loaded:
            loaded[script] = load_server_class(script)
        faults = option_faults(loaded[script].config_class(), each.config, each.path, IN_MEMORY_HOST)
        if problems := [Problem(None, fault.message, fault.remedy) for fault in faults]:
            raise ConfigErrors(problems)
        yield each.name, loaded[script]
