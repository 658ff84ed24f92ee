"""`gym env start NAME --openenv PORT`: one environment without its agents, as a server of OpenEnv's protocol."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_gym.cli.command import several, unusable_address
from nemo_gym.config.addresses import is_loopback
from nemo_gym.failures import ConfigError
from nemo_gym.names import ALLOWED_HOSTS, OPEN_NETWORK

if TYPE_CHECKING:
    from nemo_gym.config.loading import GlobalConfig
    from nemo_gym.config.servers import ServerInstance
    from nemo_gym.launch.gym import RunningGym
    from nemo_gym.launch.serving import WhileUp
    from nemo_gym.sources.openenv.server import OpenEnvServer
    from nemo_gym.sources.openenv.tasks import TaskSplits
    from nemo_gym.transport.server_client import ServerClient

UNUSED_URL = "http://policy.invalid/v1"
"""The URL of a policy that the command line does not name. The client of OpenEnv is the policy."""


def prepare_openenv(
    keys: Any, config: GlobalConfig, announce: Callable[[str], None]
) -> tuple[GlobalConfig, WhileUp]:
    """Return the part of the configuration that the environment needs, and what serves it. Raises `ConfigError`."""
    environment = find_environment(config)
    tasks = read_tasks(several(keys.input_jsonl_fpath or []), config)
    needed = set(list_needed(environment.name, config))
    kept = tuple(server for server in config.servers if server.name in needed)
    for server in kept:
        if UNUSED_URL in server.config.values():
            raise ConfigError(
                f"`{environment.name}` calls the model server `{server.name}`, which has no URL.",
                code="no_model",
                remedy="Name it: --url http://localhost:8000/v1 --model NAME.",
            )
    host = str(config.data.get("default_host") or "127.0.0.1")
    listen(host, keys.openenv_port).close()  # it is taken again when the servers are ready
    serving = partial(serve_openenv, environment, tasks, (host, keys.openenv_port), announce)
    return replace(config, servers=kept), serving


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises `ConfigError` for an address that cannot be used."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise unusable_address(host, port, error) from error


def find_environment(config: GlobalConfig) -> ServerInstance:
    """Return the only resources server. Raises `ConfigError` if there is none, or if there are several."""
    found = [server for server in config.servers if server.kind == "resources_servers"]
    if len(found) != 1:
        names = ", ".join(server.name for server in found) or "none"
        raise ConfigError(
            f"A server of OpenEnv has one environment, and this configuration has {names}.",
            code="no_server" if not found else "several_servers",
            remedy="Name one environment.",
        )
    return found[0]


def list_needed(name: str, config: GlobalConfig, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the name of a server, and of those to which its options refer."""
    from nemo_gym.rollouts.run.required_servers import references_in

    servers = {server.name: server for server in config.servers}
    if name in servers and name not in seen:
        yield name
        for referred in references_in(servers[name].config):
            yield from list_needed(referred, config, seen | {name})


def read_tasks(paths: list[str], config: GlobalConfig) -> TaskSplits:
    """Return the rows of files, each of which is a split, or of the declared datasets by type. Raises `ConfigError`."""
    from nemo_gym.datasets.checking import read_rows
    from nemo_gym.rollouts.plan.dataset import locate
    from nemo_gym.rows.forms import TaskRow
    from nemo_gym.sources.openenv.tasks import TaskSplits

    files = [(Path(path).name.partition(".")[0], locate(Path(path))) for path in paths]
    files = files or [
        (str(each.dataset.type), each.file) for each in config.datasets if each.file is not None
    ]
    rows: dict[str, list[TaskRow]] = {}
    for split, file in files:
        rows.setdefault(split, []).extend(TaskRow(row) for _, row in read_rows(file))
    return TaskSplits(rows)


async def serve_openenv(
    environment: ServerInstance,
    tasks: TaskSplits,
    address: tuple[str, int],
    announce: Callable[[str], None],
    gym: RunningGym,
) -> None:
    """Serve until it is cancelled. Raises `ConfigError` for an environment whose steps are scored by itself."""
    from aiohttp import web

    from nemo_gym.tls import read_ca, server_context, uses_tls
    from nemo_gym.transport import HttpTransport
    from nemo_gym.transport.server_client import ServerClient

    transport = gym.transport or HttpTransport(ca=read_ca(gym.config))
    client = ServerClient.connect(gym.config, transport=transport, token=gym.token)
    await refuse_step_style(client, environment.name)
    app = build_server(environment, tasks, client, address[0], gym).build_app()
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        listening = listen(*address)
        port = listening.getsockname()[1]
        await web.SockSite(runner, listening, ssl_context=server_context(gym.config)).start()
        scheme = "https" if uses_tls(gym.config) else "http"
        counted = ", ".join(f"{name} {len(rows)}" for name, rows in tasks.rows.items())
        announce(f"OpenEnv: {environment.name} at {scheme}://{address[0]}:{port} (tasks: {counted})")
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()
        if gym.transport is None:
            await transport.close()


def build_server(
    environment: ServerInstance, tasks: TaskSplits, client: ServerClient, host: str, gym: RunningGym
) -> OpenEnvServer:
    """Return the server, which requires the run's token where other machines can reach it."""
    from nemo_gym.serving.browser_requests import BrowserCheck
    from nemo_gym.sources.openenv.server import OpenEnvServer

    is_guarded = not is_loopback(host) and not gym.config.get(OPEN_NETWORK)
    return OpenEnvServer(
        client,
        environment.name,
        tasks,
        version=version("nemo_gym"),
        description=str(environment.config.get("description") or ""),
        token=gym.token if is_guarded else None,
        browsers=BrowserCheck([host, *(gym.config.get(ALLOWED_HOSTS) or ())]),
    )


async def refuse_step_style(client: ServerClient, name: str) -> None:
    """Raise `ConfigError` for an environment that `gymnasium_agent` plays: `/verify` does not score it."""
    described = await (await client.get(name, "/openapi.json")).json()
    if "/step" in described.get("paths", {}):
        raise ConfigError(
            f"`{name}` scores every step by itself, and OpenEnv's protocol is not offered for such environments.",
            code="step_style",
        )
