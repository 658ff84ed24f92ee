"""Laws of a rollout's record while connections break and the model server and the engine die, in virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from nemo_gym import clock
from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.engines.gateway.reading import RecordedRollout
from nemo_gym.engines.record.files import read_record
from nemo_gym.failures import TransportError
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.drifting import DriftingEngine
from nemo_gym.transport import Call, Reply
from nemo_gym.transport.server_client import ServerClient
from simulation.determinism import SeededSources
from simulation.faults import ENGINE, GENERATE, MODEL, CallFault, CallFaults, FaultKind
from simulation.gym import SimulatedModel
from simulation.monitor import Monitor
from simulation.network import Address, Network
from simulation.processes import Process, owned_task_factory
from simulation.virtual_time import run_virtually
from tests.engines.gateway.random_trees import RandomAgent, Talk
from tests.engines.gateway.rollouts import TOKEN, WITH_TOKEN, bearer
from tests.harnesses.laws import check_laws
from tests.samples import IS_WHOLE
from tests.tokens.conversations import RandomPolicy

SEEDS = 500 if IS_WHOLE else 100
MODEL_URL, ENGINE_URL = "http://model:1", "http://engine:1"
FAULTS = (
    FaultKind.SLOW,
    FaultKind.REFUSED,
    FaultKind.RESET_BEFORE,
    FaultKind.RESET_DURING,
    FaultKind.RESET_AFTER,
    FaultKind.HTTP_503,
    FaultKind.LATE_504,
    FaultKind.CRASH,
)


class FaultyGateway:
    """A model server and its engine, each a process on the simulated network."""

    def __init__(self, folder: Path, rng: Random) -> None:
        self.monitor = Monitor(asyncio.get_running_loop().time)
        places = [(MODEL, "/v1/messages"), (MODEL, "/v1/chat/completions"), GENERATE]
        faults = [
            CallFault(rng.choice(places), rng.randint(1, 8), rng.choice(FAULTS), rng.uniform(0, 5))
            for _ in range(rng.randint(1, 6))
        ]
        self.network = Network(self.monitor, CallFaults(faults), rng)
        self.engine = DriftingEngine(
            EngineOptions(model="mock", seed=1, latency_s="0.5"), policy=RandomPolicy(), odd_share=0.5
        )
        block = {
            "entrypoint": "app.py",
            "host": "127.0.0.1",
            "port": 1,
            "base_url": f"{ENGINE_URL}/v1",
            "api_key": "none",
            "model": "mock",
            "return_token_id_information": True,
        }
        capture = {"model_call_capture_dir": str(folder)}
        self._config = {MODEL: {"responses_api_models": {"vllm_model": block}}, **capture}
        self._client = self.network.transport_of(Process("agent"))

    async def start(self) -> None:
        await self.network.open(ENGINE_URL, Address(ENGINE, self._new_engine, is_held=False))
        await self.network.open(MODEL_URL, Address(MODEL, self._new_model, is_held=True))

    async def _new_engine(self, process: Process) -> Any:
        return EngineApp(self.engine)

    async def _new_model(self, process: Process) -> Any:
        bootstrap.set_current(Bootstrap(MODEL, {}, TOKEN, "cookie key", []))
        client = ServerClient.connect(self._config, transport=self.network.transport_of(process), token=TOKEN)
        return SimulatedModel(
            config=SimulatedModel.build_server_config(MODEL, self._config), server_client=client
        ).setup_webserver()

    async def ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        """Send a request as the clients of OpenAI and Anthropic do: again after an error, with the attempt's number."""
        for attempt in range(20):
            given = {**headers, "x-stainless-retry-count": str(attempt)}
            try:
                reply = await self._client.send(MODEL_URL, Call(method, path, orjson.dumps(body), given))
            except TransportError:
                reply = None
            if reply is not None and reply.status < 500:
                return reply
            await asyncio.sleep(2.0)
        raise AssertionError(f"{path} never answered")


@dataclass
class PlainAgent(RandomAgent):
    """Uses every answer. Its calls are repeated by faults only."""

    answers: list[bytes] = field(default_factory=list)

    async def act(self, talk: Talk) -> dict[str, Any]:
        return self.called(talk, await self.post(talk))

    def called(self, talk: Talk, answer: dict[str, Any]) -> dict[str, Any]:
        self.answers.append(orjson.dumps(answer))
        return super().called(talk, answer)


async def played(folder: Path, seed: int) -> tuple[FaultyGateway, PlainAgent]:
    asyncio.get_running_loop().set_task_factory(owned_task_factory)
    rng = Random(seed)
    with clock.replaced_by(SeededSources(Random(seed), asyncio.get_running_loop().time)):
        gateway = FaultyGateway(folder, rng)
        await gateway.start()
        opened = await gateway.ask("POST", "/ng-rollouts", {"rollout_id": "r"}, WITH_TOKEN)
        agent = PlainAgent(gateway, rng, rng.choice(("messages", "chat/completions")), bearer(opened.json()))
        await agent.run(rng.randint(1, 4))
        await asyncio.sleep(60.0)
        await gateway.network.close()
    return gateway, agent


@pytest.mark.parametrize("part", range(4))
def test_no_answered_call_is_lost_and_none_is_trained_twice(tmp_path: Path, part: int) -> None:
    before = bootstrap.current()
    faults = 0
    try:
        for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
            folder = tmp_path / str(seed)
            gateway, agent = run_virtually(played(folder, seed))
            check_record(folder / "r", gateway, agent, seed)
            faults += sum(event.kind == "fault" for event in gateway.monitor.trace.events)
    finally:
        bootstrap.set_current(before)
    assert faults > SEEDS // 4


def check_record(folder: Path, gateway: FaultyGateway, agent: PlainAgent, seed: int) -> None:
    record = RecordedRollout(read_record(folder).lines).to_json()
    answered = [call for call in record["calls"] if call["status_code"] == 200]
    check_laws(record, len(answered))
    recorded = Counter(orjson.dumps(call["response"]) for call in answered)
    assert all(recorded[answer] for answer in agent.answers), seed
    assert len(answered) <= len(gateway.engine.sampled), seed
