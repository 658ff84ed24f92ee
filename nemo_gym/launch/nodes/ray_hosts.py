"""The nodes of a Ray cluster as the machines of a gym: the placement `ray` of `ng_run` and `ng_e2e_collect_rollouts`.

Ray says which nodes there are, starts a node host on each, reserves resources, and reports lost nodes. The rest is as
on other hosts: processes, sockets and HTTP are the gym's, and no rollout passes through Ray. A process of its own talks
to Ray (`ray_driver`), because Ray ends the processes that it cannot serve any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym import PARENT_DIR
from nemo_gym.config.keys import HostKeys, RayRuntimeEnv
from nemo_gym.config.problems import InputChecks
from nemo_gym.config.ray_environment import (
    build_runtime_env,
    list_hidden_values,
    read_ray_environment,
    secret_variables,
)
from nemo_gym.config.secrets import hide_in_text
from nemo_gym.failures import ConfigError
from nemo_gym.launch import _logs as logs
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.nodes.hosts import END_S, MODULE, RAY_IS_GONE, StartedHost, end_process
from nemo_gym.launch.nodes.places import Moved
from nemo_gym.launch.nodes.placing import ReplicaKey
from nemo_gym.launch.nodes.ray_cluster import RayNode, check_token, find_hosts, read_address
from nemo_gym.launch.nodes.ray_driver import AUTO, LINE_BYTES, REMEDY

DRIVER = (sys.executable, "-P", "-m", "nemo_gym.launch.nodes.ray_driver")
"""The words that start the process that talks to Ray, before the launcher's pid and the cluster's address."""
_CONNECT_WITHIN_S = 120.0
"""Seconds within which a busy machine connects to Ray, which itself tries for many minutes."""


@dataclass(slots=True)
class _Actor:
    """The actor of a node host."""

    number: int
    driver: _Driver
    log_path: Path
    ended: asyncio.Future[str]
    ends_node: bool = True
    """Ray has lost the node if the actor ends, although servers there may answer for a while."""

    async def wait(self) -> str:
        return await asyncio.shield(self.ended)

    async def end(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wait(), END_S)
        self.driver.send("kill", actor=self.number)


@dataclass(slots=True)
class _Driver:
    """The process that talks to Ray."""

    process: asyncio.subprocess.Process
    secrets: Collection[str] = ()
    """The secrets that no message may show."""
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    answers: dict[int, asyncio.Future[Any]] = field(default_factory=dict)
    actors: dict[int, _Actor] = field(default_factory=dict)
    reading: asyncio.Task[None] | None = None

    @property
    def is_alive(self) -> bool:
        return self.reading is not None and not self.reading.done()

    async def connect(self, address: str, environment: Mapping[str, Any]) -> dict[str, Any]:
        """Return the description of the cluster. Raises `ConfigError` if it cannot be used."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        first = {"address": address, "environment": environment}
        self.process.stdin.write(json.dumps(first).encode() + b"\n")
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), _CONNECT_WITHIN_S)
        except TimeoutError as error:
            raise ConfigError(
                f"Ray has not answered within {_CONNECT_WITHIN_S:g} s.", code="no_ray", remedy=REMEDY
            ) from error
        if not line:
            code = await self.process.wait()
            raise ConfigError(
                f"the process that talks to Ray has ended with exit code {code}.",
                code="no_ray",
                remedy="Its output is in ray.log, in the folder of the logs.",
            )
        message: dict[str, Any] = json.loads(line)
        if message["kind"] == "refused":
            refused = message["refused"]
            raise ConfigError(
                hide_in_text(refused["message"], self.secrets), code=refused["code"], remedy=refused["remedy"]
            )
        self.reading = asyncio.create_task(self._read())
        return message

    async def ask(self, kind: str, **fields: Any) -> Any:
        """Send a request and return its result. Raises `LaunchError` if it is refused."""
        answer = asyncio.get_running_loop().create_future()
        number = self.send(kind, **fields)
        if not self.is_alive:
            raise _build_gone_error()
        self.answers[number] = answer
        try:
            return await answer
        finally:
            self.answers.pop(number, None)

    def send(self, kind: str, **fields: Any) -> int:
        """Send a request and return its number. A process that has ended gets none."""
        assert self.process.stdin is not None
        number = next(self.numbers)
        if self.is_alive:
            self.process.stdin.write(json.dumps({"kind": kind, "number": number, **fields}).encode() + b"\n")
        return number

    async def close(self) -> None:
        """End the process, and with it everything that it started or reserved."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await end_process(self.process)
        if self.reading is not None:
            await self.reading

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            self._handle(json.loads(line))
        for answer in self.answers.values():
            if not answer.done():
                answer.set_exception(_build_gone_error())
        for actor in self.actors.values():
            if not actor.ended.done():
                actor.ended.set_result("the connection to Ray")

    def _handle(self, message: Mapping[str, Any]) -> None:
        match message["kind"]:
            case "output":
                with self.actors[message["actor"]].log_path.open("a", encoding="utf-8") as file:
                    file.write(message["text"])
            case "ended":
                self.actors.pop(message["actor"]).ended.set_result(message["how"])
            case "answer":
                answer = self.answers.get(message["number"])
                if answer is None or answer.done():
                    return
                refused = message.get("refused")
                if refused is None:
                    answer.set_result(message["value"])
                else:
                    text = hide_in_text(refused["message"], self.secrets)
                    answer.set_exception(
                        LaunchError(text, code=refused["code"], remedy=refused["remedy"] or None)
                    )


@dataclass(slots=True)
class RayHosts:
    """The nodes of a Ray cluster."""

    address: str
    """The address of the cluster."""
    log_path: Path
    """The log of the process that talks to it."""
    environment: RayRuntimeEnv = field(default_factory=RayRuntimeEnv, repr=False)
    """The environment that Ray makes on every node."""
    command: Sequence[str] = DRIVER
    """Starts the process that talks to the cluster."""
    keys: Sequence[HostKeys] = ()
    own_address: str = ""
    """The address of this machine in the cluster."""
    _nodes: dict[str, RayNode] = field(default_factory=dict)
    _driver: _Driver | None = None
    _connecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _reserved: set[ReplicaKey] = field(default_factory=set)

    @classmethod
    async def connect(cls, config: Mapping[str, Any], log_folder: Path, folder: Path) -> RayHosts:
        """Connect to the cluster of the configuration, whose relative paths start at `folder`.

        Raises `ConfigError` if there is no cluster that may be used.
        """
        checks = InputChecks()
        address, environment = AUTO, None
        with checks.check():
            address = read_address(config, os.environ)
        with checks.check():
            check_token(os.environ)
        with checks.check():
            environment = read_ray_environment(config, folder)
        checks.raise_if_any()
        if importlib.util.find_spec("ray") is None:
            raise ConfigError(
                "placement=ray needs Ray",
                code="no_ray",
                remedy="Install the gym's extra `ray`; `gym doctor` shows the command for extras.",
            )
        hosts = cls(address, logs.log_path(log_folder, "ray", 0, 1), environment or RayRuntimeEnv())
        await hosts.find_nodes(config.get("hosts") or ())
        return hosts

    async def find_nodes(self, wanted: Sequence[str | Mapping[str, Any]]) -> None:
        """Connect, and choose the nodes. Raises `ConfigError` as `connect` does."""
        _, found = await self._start_driver()
        self.own_address = found["address"]
        try:
            named = find_hosts(found["nodes"], wanted)
        except BaseException:
            await self.close()
            raise
        self.keys = [keys for keys, _ in named]
        self._nodes = {keys.host: node for keys, node in named}

    async def start(self, host: str, document: bytes, log_path: Path) -> StartedHost:
        driver = await self._connect()
        node, number = self._nodes[host], next(driver.numbers)
        actor = _Actor(number, driver, log_path, asyncio.get_running_loop().create_future())
        driver.actors[number] = actor
        await driver.ask(
            "start",
            actor=number,
            host=host,
            name=node.name,
            node=node.id,
            command=[self._interpreter, "-P", "-m", MODULE],
            document=document.decode(),
            chosen=list(self.environment.env_vars),
            secrets=secret_variables(self.environment),
        )
        return actor

    async def reserve(
        self, host: str, replica: ReplicaKey, needs: Mapping[str, float]
    ) -> Sequence[str] | None:
        if not needs:
            return ()
        driver = await self._connect()
        gpus: list[str] | None = await driver.ask(
            "reserve", host=host, replica=_build_name(replica), needs=dict(needs)
        )
        if gpus is not None:
            self._reserved.add(replica)
        return gpus

    def release(self, replica: ReplicaKey) -> None:
        if replica in self._reserved and self._driver is not None:
            self._reserved.discard(replica)
            self._driver.send("release", replica=_build_name(replica))

    def remedy(self, host: str) -> str:
        if not self._interpreter:
            return f"The environment of Ray on {host} needs nemo-gym, or ray_runtime_env must install it."
        return f"{host} needs the launcher's interpreter, {sys.executable}, and its code at the same paths."

    async def close(self) -> None:
        if self._driver is not None:
            await self._driver.close()

    @property
    def moved(self) -> Moved | None:
        given = self.environment
        if self._interpreter and given.working_dir is None and not given.py_modules:
            return None
        return Moved(str(PARENT_DIR), given.working_dir, given.py_modules)

    @property
    def _interpreter(self) -> str:
        """The interpreter of node hosts; empty for that of Ray's worker, which has the packages of the environment."""
        return "" if self.environment.pip or self.environment.uv else sys.executable

    async def _connect(self) -> _Driver:
        """Return the process that talks to Ray, which is another one if Ray was gone. Raises `LaunchError`."""
        async with self._connecting:
            if self._driver is None or not self._driver.is_alive:
                try:
                    self._driver, _ = await self._start_driver()
                except ConfigError as error:
                    raise LaunchError(error.failure.message, code=RAY_IS_GONE) from error
            return self._driver

    async def _start_driver(self) -> tuple[_Driver, dict[str, Any]]:
        with self.log_path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(*self.command, str(os.getpid())),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                limit=LINE_BYTES,
                start_new_session=True,
            )
        self._driver = _Driver(process, list_hidden_values(self.environment))
        try:
            return self._driver, await self._driver.connect(self.address, build_runtime_env(self.environment))
        except BaseException:
            await self._driver.close()
            raise


def _build_name(replica: ReplicaKey) -> str:
    return f"{replica.server}.{replica.number}"


def _build_gone_error() -> LaunchError:
    return LaunchError("the connection to Ray has ended", code=RAY_IS_GONE)
