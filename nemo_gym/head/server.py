"""The head server returns the effective configuration and the servers' addresses, and runs posted task rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import yaml
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field, PrivateAttr

from nemo_gym.config.secrets import hide_secrets
from nemo_gym.config.types import BaseRunServerInstanceConfig
from nemo_gym.failures import Boundary
from nemo_gym.head._launcher import ask_launcher, not_scalable
from nemo_gym.names import (
    DIRECTORY_KEY,
    DIRECTORY_ROUTE,
    DRAIN_TIMEOUT_S,
    HEAD_SERVER,
    ROLLOUT_SESSIONS_ROUTE,
    RUNS_ROUTE,
    SCALE_ROUTE,
    SERVER_KINDS,
)
from nemo_gym.serving.base import SimpleServer
from nemo_gym.tls import read_ca, uses_tls
from nemo_gym.transport.directory import Directory, base_url, server_block

if TYPE_CHECKING:
    from nemo_gym.rollouts.control.gym_control import GymControl


class ScaleRequest(BaseModel, extra="forbid"):
    """The body of `POST /_ng/scale`."""

    servers: dict[str, Annotated[int, Field(le=(1 << 31) - 1)]]
    """Server → the number of replicas that it shall have."""
    drain_timeout_s: float = Field(DRAIN_TIMEOUT_S, ge=0, allow_inf_nan=False)
    """Seconds that replicas to be removed may take to finish their sessions."""


class HeadServer(SimpleServer):
    """The discovery server of a gym. Its answers contain no secrets."""

    boundary: ClassVar[Boundary] = Boundary.CONFIG
    cancel_on_disconnect: ClassVar[frozenset[str]] = frozenset({"/rollouts"})
    _runs: dict[str, Any] = PrivateAttr(default_factory=dict)
    """The requests for rollouts that go on, by the names in their responses: `RunControl`."""
    _servers: Any = PrivateAttr(default=None)
    """The control of the attempts that no run of `_runs` makes: `GymControl`, from its first use on."""
    _sessions: Any = PrivateAttr(default=None)
    """The open rollout sessions; None before the first one."""

    @classmethod
    def build_server_config(cls, name: str, global_config: Mapping[str, Any]) -> BaseRunServerInstanceConfig:
        head = global_config[HEAD_SERVER]
        return BaseRunServerInstanceConfig(
            host=head["host"], port=head["port"], entrypoint="head.py", name=HEAD_SERVER
        )

    def setup_webserver(self) -> FastAPI:
        app = self.new_app()
        app.get("/global_config_dict_yaml")(self.global_config_dict_yaml)
        app.get("/server_instances")(self.server_instances)
        app.get(DIRECTORY_ROUTE)(self.directory)
        app.post(SCALE_ROUTE)(self.scale)
        app.post("/rollouts")(self.rollouts)
        for path in (RUNS_ROUTE, RUNS_ROUTE + "/{rest:path}"):
            app.get(path, include_in_schema=False)(self.control)
            app.post(path, include_in_schema=False)(self.control)
        for path in (ROLLOUT_SESSIONS_ROUTE, ROLLOUT_SESSIONS_ROUTE + "/{rest:path}"):
            app.api_route(path, methods=["GET", "POST", "DELETE"], include_in_schema=False)(self.sessions)
        return app

    async def global_config_dict_yaml(self, request: Request) -> str:
        """Return the effective configuration as YAML in a JSON string."""
        config = dict(self.server_client.global_config_dict)
        return yaml.safe_dump(hide_secrets(config), sort_keys=False)

    async def server_instances(self) -> list[dict[str, Any]]:
        """Return every server: name, kind, implementation, host, port, URL."""
        return list(_instances(self.server_client.global_config_dict, self.server_client.caller().directory))

    async def directory(self) -> Response:
        """Return the current addresses of a gym whose replicas can move. The launcher keeps them in a file."""
        known = self.server_client.global_config_dict.get(DIRECTORY_KEY)
        if known is None:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        return Response(_read(known["file"]), media_type="application/json")

    async def scale(self, body: ScaleRequest) -> Any:
        """Add and remove replicas. The answer comes when the added ones are ready and the removed ones have ended."""
        known = self.server_client.global_config_dict.get(DIRECTORY_KEY)
        address = json.loads(_read(known["file"])).get("control") if known is not None else None
        if address is None:
            raise not_scalable()
        return await ask_launcher(address, self.middleware.access.token, body.model_dump())

    async def rollouts(self, request: Request) -> Response:
        """Run the task rows in the body; stream one line per finished rollout."""
        # Imported at the first request, so that a gym starts faster.
        from nemo_gym.head._rollout_request import read_request
        from nemo_gym.head._rollout_stream import RolloutStream
        from nemo_gym.rollouts.control.clocks import Clocks
        from nemo_gym.rollouts.run.agent_attempter import AgentAttempter

        asked = read_request(
            await request.body(),
            request.headers.get("content-type", ""),
            request.query_params,
            self.server_client.global_config_dict,
        )
        caller, config = self.server_client.caller(), self.server_client.global_config_dict
        attempter = AgentAttempter(caller, timeout_s=asked.options.rollout_timeout_s)
        clocks = Clocks(caller, caller.directory.names(), read_ca(config))
        return RolloutStream(asked, attempter, self._runs, clocks, attempter.tune)

    async def sessions(self, request: Request) -> Any:
        """Open a rollout session, or use one (`nemo_gym.head._rollout_sessions`)."""
        from nemo_gym.head._rollout_sessions import RolloutSessions

        if self._sessions is None:
            client = self.server_client
            self._sessions = RolloutSessions(client.caller(), client.global_config_dict, self._runs)
        return await self._sessions.answer(request)

    async def on_stop(self) -> None:
        if self._sessions is not None:
            await self._sessions.stop()
        await super().on_stop()

    async def control(self, request: Request) -> Any:
        """Show or control the requests for rollouts that go on, and the servers' own attempts as one more run."""
        from nemo_gym.rollouts.control.routes import answer

        servers = self._find_servers()
        await servers.refresh()
        runs = {**self._runs, servers.name: servers}
        return await answer(runs, request.method, request.url.path, await request.body())

    def _find_servers(self) -> GymControl:
        """Return the control of the servers' own attempts."""
        if self._servers is None:
            from nemo_gym.rollouts.control.clocks import Clocks
            from nemo_gym.rollouts.control.gym_control import GymControl
            from nemo_gym.rollouts.run.required_servers import runs_rows

            caller, config = self.server_client.caller(), self.server_client.global_config_dict
            clocks = Clocks(caller, caller.directory.names(), read_ca(config))
            agents = [name for name, instance in config.items() if runs_rows(instance)]
            self._servers = GymControl(caller, lambda: set(agents) & set(caller.directory.names()), clocks)
        control: GymControl = self._servers
        return control


def _read(path: str) -> bytes:
    return Path(path).read_bytes()


def _instances(config: Mapping[str, Any], directory: Directory) -> Any:
    for name, instance in config.items():
        block = server_block(instance)
        if block is None or block.get("port") is None:
            continue
        kind = next(kind for kind in SERVER_KINDS if kind in instance)
        yield {
            "name": name,
            "process_name": name,
            "server_type": kind,
            "implementation": next(iter(instance[kind])),
            "host": block.get("host"),
            "port": block["port"],
            "url": base_url(block.get("host") or "127.0.0.1", block["port"], is_tls=uses_tls(config)),
            "replica_urls": list(directory.replicas(name)),
            "entrypoint": block.get("entrypoint"),
            "status": "running",
        }


if __name__ == "__main__":
    HeadServer.run_webserver()
