"""The server processes of a configuration with addresses."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from nemo_gym import PARENT_DIR
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.config.servers import ServerInstance, find_root
from nemo_gym.launch import _logs as logs
from nemo_gym.launch._addresses import Addresses, HeldAddress
from nemo_gym.launch._spawners import ServerProcess
from nemo_gym.launch._supervisor import SupervisedServer
from nemo_gym.launch.server_code import find_changed_modules
from nemo_gym.launch.sockets import HeldSocket
from nemo_gym.names import CODE_KEY, HEAD_SERVER

HEAD_SCRIPT = PARENT_DIR / "nemo_gym" / "head" / "server.py"
REQUIREMENTS_FILE = "requirements.txt"


@dataclass(frozen=True, slots=True)
class RunKeys:
    """The keys of one run."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """The token for control routes."""
    cookie_key: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)
    """Signs session cookies."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> RunKeys:
        """Random keys, with the `run_token` of `config` if set."""
        token = config.get("run_token")
        return cls(token=str(token)) if token else cls()


@dataclass(frozen=True)
class ServerPlan:
    """Plans the processes of one run, from the values that all its servers share."""

    config: dict[str, Any]
    """The configuration with every address, secrets included."""
    keys: RunKeys
    log_folder: Path

    def servers(
        self, instances: Sequence[ServerInstance], addresses: Addresses, head_script: Path = HEAD_SCRIPT
    ) -> list[SupervisedServer]:
        """One `SupervisedServer` per process, the head server first."""
        # The head server's folder stays off the search path, where its modules would shadow others.
        servers = list(self._replicas((HEAD_SERVER, HEAD_SERVER, HEAD_SERVER), head_script, [addresses.head]))
        for each in instances:
            servers += self.build_replicas(each, addresses.servers[each.name])
        return servers

    def build_replicas(
        self, instance: ServerInstance, addresses: Sequence[HeldAddress], first: int = 0
    ) -> Iterator[SupervisedServer]:
        """One `SupervisedServer` per replica of a server; `first` is the number of the first of them."""
        folder = instance.directory.resolve()
        # The server's folder is for `import scoring`, the root for `import resources_servers.mine.scoring`.
        path = (str(folder), str(find_root(folder)))
        script = folder / instance.entrypoint
        told = self.config.get(CODE_KEY)
        find_changes = (
            partial(find_changed_modules, instance, Path.cwd(), told) if told is not None else tuple
        )
        for server in self._replicas(instance.path, script, addresses, *path, first=first):
            server.find_changed_modules = find_changes
            yield server

    def _replicas(
        self,
        path: tuple[str, str, str],
        script: Path,
        addresses: Sequence[HeldAddress],
        *search_path: str,
        first: int = 0,
    ) -> Iterator[SupervisedServer]:
        name, requirements = path[0], script.parent / REQUIREMENTS_FILE
        for replica, held in enumerate(addresses, start=first):
            yield SupervisedServer(
                *path,
                replica=replica,
                url=held.url,
                requirements=requirements if requirements.is_file() else None,
                process=ServerProcess(
                    script=script,
                    search_path=(*search_path, str(PARENT_DIR)),
                    sockets=[held] if isinstance(held, HeldSocket) else [],
                    bootstrap=Bootstrap(
                        name, self.config, self.keys.token, self.keys.cookie_key, [], replica
                    ),
                    log_path=logs.log_path(self.log_folder, name, replica, first + len(addresses)),
                ),
            )
