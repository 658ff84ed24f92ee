"""A simulated gym: head, agent, model, environment and engine, each in its own process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from nemo_gym.engines.record.store import CAPTURE_DIR_KEY
from nemo_gym.episodes.driver import Episode, SessionBodies
from nemo_gym.head.server import HeadServer
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.names import REPLICA_PORTS_KEY
from nemo_gym.protocol.episodes import EpisodeId, TaskId
from nemo_gym.protocol.resources_sessions import ResourcesCloseSessionRequest, ResourcesSeedSessionRequest
from nemo_gym.rows.keys import TASK_INDEX_KEY
from nemo_gym.serving.base import SimpleServer
from nemo_gym.transport import Transport
from nemo_gym.transport.directory import base_url
from nemo_gym.transport.server_client import ServerClient
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.vllm_model.app import VLLMModel
from simulation.environment import AddingPolicy, SimulatedEnvironment
from simulation.faults import AGENT, ENGINE, ENVIRONMENT, HEAD, MODEL
from simulation.monitor import Monitor
from simulation.network import EVERYWHERE, Address, Network
from simulation.nodes import NODE, SimulatedNodes, connect_replica, make_replica
from simulation.processes import Process
from simulation.scenario import Scenario

_HOST = "127.0.0.1"
_HEAD_PORT, _AGENT_PORT, _MODEL_PORT, _ENVIRONMENT_PORT, _ENGINE_PORT = 11_000, 11_001, 11_002, 11_010, 8_000
_LATER_PORTS = 1_000
"""The distance of the ports of two generations."""
_MODEL_NAME = "simulated"


class SimulatedModel(VLLMModel):
    """A model server that reaches its engine over the simulated network."""

    def new_transport(self) -> Transport:
        return self.server_client.caller().transport


class NamingAgent(SimpleAgent):
    """An agent that opens and closes sessions by names of its own, with the ecosystem's requests."""

    def session_bodies(self, episode: Episode) -> SessionBodies:
        attempt = self.rollout_id_from_run(episode.row) or "no attempt"
        named: dict[str, Any] = {
            "resources_session_id": f"{attempt}-named",
            "episode_id": EpisodeId(rollout_id=attempt),
        }
        task = TaskId(taskset=ENVIRONMENT, task_id=str(episode.row[TASK_INDEX_KEY]))
        opening = ResourcesSeedSessionRequest(**named, task_id=task)
        closing = ResourcesCloseSessionRequest(**named)
        return SessionBodies(opening.model_dump_json().encode(), closing.model_dump_json().encode())


class SimulatedGym:
    """The servers of a gym on a network."""

    def __init__(self, scenario: Scenario, network: Network, monitor: Monitor, folder: Path) -> None:
        """`folder`: holds the directory of a gym with nodes."""
        self._scenario = scenario
        self._network = network
        self._monitor = monitor
        self._rng = scenario.rng("gym")
        self.config = _config_of(scenario, folder)
        self._servers: dict[str, SimpleServer] = {}
        self.nodes: SimulatedNodes | None = None
        if scenario.has_nodes:
            self.nodes = SimulatedNodes(network, monitor, folder, self._open_elsewhere)
            ports = [_ENVIRONMENT_PORT + replica for replica in range(scenario.replicas)]
            self.nodes.publish_first(
                self.config,
                self.head_url,
                {
                    MODEL: [base_url(_HOST, _MODEL_PORT)],
                    AGENT: [base_url(_HOST, _AGENT_PORT)],
                    ENVIRONMENT: [base_url(_HOST, port) for port in ports],
                },
            )

    @property
    def head_url(self) -> str:
        return base_url(_HOST, _HEAD_PORT)

    @property
    def environments(self) -> list[SimulatedEnvironment]:
        """The running replicas of the environment."""
        return [server for server in self._servers.values() if isinstance(server, SimulatedEnvironment)]

    async def start(self) -> None:
        await self._open(ENGINE, _ENGINE_PORT, is_held=False, node=EVERYWHERE)
        await self._open(HEAD, _HEAD_PORT)
        generation, node = (1, NODE) if self.nodes is not None else (None, "")
        await self._open(MODEL, _MODEL_PORT, generation=generation, node=node)
        for replica in range(self._scenario.replicas):
            place = "" if replica else node
            await self._open(ENVIRONMENT, _ENVIRONMENT_PORT + replica, generation=generation, node=place)
        await self._open(AGENT, _AGENT_PORT, generation=generation, node=node)

    async def _open_elsewhere(self, name: str, number: int, generation: int) -> str:
        """Start the next generation of a replica whose node is lost, and return its origin."""
        port = {AGENT: _AGENT_PORT, MODEL: _MODEL_PORT, ENVIRONMENT: _ENVIRONMENT_PORT + number}[name]
        self._servers.pop(base_url(_HOST, port))
        port += _LATER_PORTS * generation
        await self._open(name, port, generation=generation)
        return base_url(_HOST, port)

    async def _open(
        self, name: str, port: int, *, is_held: bool = True, generation: int | None = None, node: str = ""
    ) -> None:
        origin = base_url(_HOST, port)

        async def factory(process: Process) -> Any:
            if name == ENGINE:
                return self._new_engine().app
            server = self._servers[origin] = self._new_server(name, process, generation)
            app = server.setup_webserver()
            await _started(server, process)
            return app

        movable_at = None if generation is None else origin
        await self._network.open(
            origin, Address(name, factory, is_held=is_held, node=node, movable_at=movable_at)
        )

    def _new_engine(self) -> MockEngine:
        latency = f"uniform:{0.5 * self._scenario.engine_s}:{1.5 * self._scenario.engine_s}"
        options = EngineOptions.model_validate(
            {"model": _MODEL_NAME, "latency_s": latency, "seed": self._rng.getrandbits(32)}
        )
        return MockEngine(options, policy=AddingPolicy())

    def _new_server(self, name: str, process: Process, generation: int | None) -> SimpleServer:
        is_naming = name == AGENT and self._scenario.names_sessions
        server_class = NamingAgent if is_naming else _CLASSES[name]
        transport = self._network.transport_of(process)
        client = (
            ServerClient.connect(self.config, transport=transport, token=None)
            if generation is None
            else connect_replica(self.config, transport, name, generation)
        )
        server = server_class(
            config=server_class.build_server_config(name, self.config), server_client=client
        )
        if isinstance(server, SimulatedEnvironment):
            server.attach(self._monitor, Random(self._rng.getrandbits(64)))
        if generation is not None:
            make_replica(server, generation)
        return server


async def _started(server: SimpleServer, process: Process) -> None:
    """Start the server's lifespan, which ends with its process."""
    is_alive = asyncio.Event()

    async def live() -> None:
        async with server.alive():
            is_alive.set()
            await asyncio.Event().wait()

    process.spawn(live(), "life")
    await is_alive.wait()


_CLASSES: dict[str, type[SimpleServer]] = {
    HEAD: HeadServer,
    AGENT: SimpleAgent,
    MODEL: SimulatedModel,
    ENVIRONMENT: SimulatedEnvironment,
}


def _config_of(scenario: Scenario, folder: Path) -> dict[str, Any]:
    """The gym's global configuration, as the launcher resolves it."""
    ports = [_ENVIRONMENT_PORT + replica for replica in range(scenario.replicas)]
    return {
        CAPTURE_DIR_KEY: str(folder / "model_calls"),
        HEAD: {"host": _HOST, "port": _HEAD_PORT},
        MODEL: {
            "responses_api_models": {
                "vllm_model": {
                    **_block(_MODEL_PORT),
                    "base_url": f"{base_url(_HOST, _ENGINE_PORT)}/v1",
                    "api_key": "simulated",
                    "model": _MODEL_NAME,
                }
            }
        },
        ENVIRONMENT: {"resources_servers": {"simulated": {**_block(ports[0]), REPLICA_PORTS_KEY: ports}}},
        AGENT: {
            "responses_api_agents": {
                "simple_agent": {
                    **_block(_AGENT_PORT),
                    "resources_server": {"type": "resources_servers", "name": ENVIRONMENT},
                    "model_server": {"type": "responses_api_models", "name": MODEL},
                }
            }
        },
    }


def _block(port: int) -> dict[str, Any]:
    return {"entrypoint": "app.py", "host": _HOST, "port": port}
