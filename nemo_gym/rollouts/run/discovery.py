"""Finds a running gym by the file in its working folder or by its head server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import yaml

from nemo_gym.config.keys import DEFAULT_HOST
from nemo_gym.config.yaml_text import load_yaml
from nemo_gym.discovery_files import (
    RUN_KEY,
    discovery_names,
    discovery_path,
    is_alive,
    name_to_read,
    read_discovery,
    run_in,
)
from nemo_gym.failures import ConfigError, DeadlineError, TransportError
from nemo_gym.json_objects import member
from nemo_gym.names import CODE_KEY, DEFAULT_HEAD_SERVER_PORT, HEAD_SERVER, SESSIONS_ROUTE, TLS_KEY
from nemo_gym.rollouts.control.clocks import Clocks
from nemo_gym.rollouts.run.required_servers import runs_rows
from nemo_gym.tls import read_ca, uses_tls
from nemo_gym.transport import Caller, Directory, HttpTransport, RetryBudget, Transport
from nemo_gym.transport.directory import base_url, head_url
from nemo_gym.transport.moving_caller import build_caller

_HEAD_ANSWERS_S = 10.0


@dataclass(frozen=True, slots=True)
class DiscoveredGym:
    """A running gym, seen from another process."""

    config: Mapping[str, Any]
    """The global configuration with the address of every server, without secrets."""
    token: str | None = None
    """The token of control routes; None if unknown."""
    transport: Transport | None = None
    """The transport to its servers; None for HTTP."""
    logs: Path | None = None
    """The folder with a log for each server; None if unknown."""

    @property
    def repository(self) -> Mapping[str, Any] | None:
        """The commit of the git repository in which the gym was started, and whether its files differ (`dirty`)."""
        told = member(self.config, CODE_KEY, "repository")
        return told if isinstance(told, Mapping) else None

    def clocks(self, caller: Caller, servers: Iterable[str]) -> Clocks:
        """Return the clocks of a run that calls `servers`."""
        return Clocks(caller, servers, read_ca(self.config))

    def caller(self, transport: Transport | None = None) -> Caller:
        """Return a caller of the gym's servers by name."""
        transport = transport or self.transport or HttpTransport(ca=read_ca(self.config))
        return build_caller(self.config, transport, self.token)


async def find_gym(
    folder: Path,
    *,
    name: str | None = None,
    host: str | None = None,
    port: int | None = None,
    token: str | None = None,
    ca: str | None = None,
) -> DiscoveredGym:
    """Return the gym whose head server listens at `host` and `port`, or else the one that runs in `folder`.

    A gym of another folder is used only if its address is given. `name`: the gym's discovery name, needed only if
    several gyms run in the folder. `token`: the token of a gym started elsewhere; `ca`: the certificates to trust, if
    it uses TLS. Raises `ConfigError` if there is no gym; with the code `no_gym_here` if none runs in the folder.
    """
    if host is None and port is None:
        local = _gym_started_in(folder, name_to_read(folder, name))
        if local is None or not await _still_runs(folder, local):
            raise no_gym_in(folder)
        return local.gym
    if token is None:
        started = (_gym_started_in(folder, each) for each in discovery_names(folder))
        own = next((each.gym for each in started if each and _is_at(each.gym.config, host, port)), None)
        if own is not None:
            token, ca = own.token, ca or read_ca(own.config)
    url = base_url(host or DEFAULT_HOST, port or DEFAULT_HEAD_SERVER_PORT, is_tls=ca is not None)
    config = {**await ask_head(url, token=token, ca=ca)}
    if ca is not None:
        config[TLS_KEY] = {"ca": ca}  # the gym's own paths are of other machines
    return DiscoveredGym(config, token)


def find_gym_with(folder: Path, agent: str) -> str | None:
    """Return a hint at the gym of `folder` that has an agent of this name; None without one that still runs.

    A discovery file that cannot be read gives no hint.
    """
    for name in discovery_names(folder):
        announced = None
        with suppress(ConfigError):
            announced = _gym_started_in(folder, name)
        if (
            announced is not None
            and runs_rows(announced.gym.config.get(agent))
            and _seems_alive(announced.run)
        ):
            choice = f"+discovery_name={name} (gym: --discovery-name {name})" if name else "no discovery name"
            return f"Another gym of this folder has it: use {choice}."
    return None


class _Announced(NamedTuple):
    """A gym, as its discovery file announces it."""

    gym: DiscoveredGym
    run: Mapping[str, Any]


def _gym_started_in(folder: Path, name: str) -> _Announced | None:
    config = read_discovery(folder, name)
    if config is None:
        return None
    if not config:
        raise ConfigError(f"{discovery_path(folder, name)} is not a configuration", code="discovery_damaged")
    run = run_in(config)
    logs = Path(run["logs"]) if run.get("logs") else None
    shared = {key: value for key, value in config.items() if key != RUN_KEY}
    return _Announced(DiscoveredGym(shared, run.get("token"), logs=logs), run)


async def _still_runs(folder: Path, announced: _Announced) -> bool:
    """Return whether a gym has not ended. A gym that was killed leaves its file, and others may get its ports.

    A process of another machine is not seen here, but its head server accepts the run's token.
    """
    if _seems_alive(announced.run):
        return True
    gym, head = announced.gym, announced.run.get("head")
    caller = Caller(
        Directory({HEAD_SERVER: [str(head)]}),
        HttpTransport(ca=read_ca(gym.config)),
        budget=RetryBudget(attempts=1),
        token=gym.token,
    )
    try:
        return (await caller.get(HEAD_SERVER, SESSIONS_ROUTE, _HEAD_ANSWERS_S)).ok
    except (TransportError, DeadlineError):
        return False
    finally:
        await caller.transport.close()


def _seems_alive(run: Mapping[str, Any]) -> bool:
    """Return whether the process of a gym runs on this machine, or is not known."""
    pid = run.get("pid")
    return not isinstance(pid, int) or is_alive(pid, str(run.get("started_at")))


async def ask_head(
    url: str, transport: Transport | None = None, *, token: str | None = None, ca: str | None = None
) -> Mapping[str, Any]:
    """Return the configuration from the head server at `url`. Raises `ConfigError` if none answers.

    `transport`: by default one that trusts `ca`.
    """
    caller = Caller(
        Directory({HEAD_SERVER: [url]}),
        transport or HttpTransport(ca=ca),
        budget=RetryBudget(attempts=1),
        token=token,
    )
    try:
        reply = await caller.get(HEAD_SERVER, "/global_config_dict_yaml", _HEAD_ANSWERS_S)
        if reply.status == HTTPStatus.UNAUTHORIZED:
            raise ConfigError(
                f"the gym at {url} requires its token",
                code="token_required",
                remedy="Pass +run_token=..., the `token` in the discovery file of the folder where it was started.",
                peer=url,
            )
        text = reply.json() if reply.ok else None
    except (TransportError, DeadlineError) as error:
        raise _no_gym(url, error.failure.message) from error
    except orjson.JSONDecodeError as error:
        raise _no_gym(url, f"the answer is not JSON: {error}") from error
    finally:
        if transport is None:
            await caller.transport.close()
    if not isinstance(text, str):
        raise _no_gym(url, f"HTTP {reply.status}")
    return _parse(text, url)


def _is_at(config: Mapping[str, Any], host: str | None, port: int | None) -> bool:
    """Return whether the head server of a running gym listens at `host` and `port`."""
    asked = base_url(host or DEFAULT_HOST, port or DEFAULT_HEAD_SERVER_PORT, is_tls=uses_tls(config))
    return bool(member(config, HEAD_SERVER, "port")) and head_url(config) == asked


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        config = load_yaml(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{source} is not YAML: {error}", code="discovery_damaged") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{source} is not a configuration", code="discovery_damaged")
    return config


def no_gym_in(folder: Path, others: Sequence[str] = ()) -> ConfigError:
    """Return the error that no gym runs in `folder`. `others`: sentences on gyms that are not used."""
    return ConfigError(
        "\n  ".join((f"no gym runs in this folder ({folder})", *others)),
        code="no_gym_here",
        remedy="Start one here with gym env start (ng_run), or name the head server of another gym: "
        "+head_server.host=HOST +head_server.port=PORT (gym: --head HOST:PORT), and +tls.ca=… if it uses TLS.",
    )


def _no_gym(url: str, detail: str) -> ConfigError:
    return ConfigError(
        f"no head server answers at {url} ({detail})",
        code="no_gym",
        remedy="Start the servers with gym env start (ng_run), or set their head server with "
        "+head_server.host=… +head_server.port=…, and +tls.ca=… if it uses TLS.",
        peer=url,
    )
