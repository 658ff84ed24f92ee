"""A whole gym on loopback ports: head, agent, environment and model servers, and an engine behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from nemo_gym.config_types import BaseRunServerInstanceConfig
from nemo_gym.head.server import HeadServer
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.testing.serving import LoopbackServers, serving
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.vllm_model.app import VLLMModel
from tests.serving.environments import CounterEnvironment

AGENT = "agent"
TOKEN = "the-token-of-this-run"
ADD = {
    "type": "function",
    "name": "add",
    "parameters": {
        "type": "object",
        "properties": {"amount": {"type": "integer"}},
        "required": ["amount"],
    },
    "strict": False,
}


@dataclass
class LoopbackGym:
    """A gym that runs."""

    url: str
    """The head server's."""
    engine: MockEngine
    gym: InProcessGym
    head: HeadServer

    @property
    def open_sessions(self) -> int:
        return len(self.gym.servers["env"].middleware.access.sessions)


def rows(count: int) -> list[dict[str, Any]]:
    """Tasks that are solved by a tool call and an answer."""
    return [
        {
            "responses_create_params": {"input": f"Add {number}.", "tools": [ADD]},
            "agent_ref": {"type": "responses_api_agents", "name": AGENT},
            "number": number,
        }
        for number in range(count)
    ]


@asynccontextmanager
async def running_gym(*, with_tokens: bool = False, **engine_options: Any) -> AsyncIterator[LoopbackGym]:
    async with MockEngine(EngineOptions(model="mock", **engine_options)) as engine:
        gym = InProcessGym()
        gym.add(CounterEnvironment, "env")
        model: dict[str, Any] = {"base_url": engine.base_url, "api_key": "none", "model": "mock"}
        if with_tokens:
            model |= {"return_token_id_information": True, "token_fields": "packed"}
        gym.add(VLLMModel, "policy_model", **model)
        gym.add(
            SimpleAgent,
            AGENT,
            resources_server={"type": "resources_servers", "name": "env"},
            model_server={"type": "responses_api_models", "name": "policy_model"},
        )
        async with gym.running(over_http=True):
            config = BaseRunServerInstanceConfig(host="127.0.0.1", port=0, entrypoint="", name="head_server")
            head = HeadServer(config=config, server_client=gym.client())
            head.middleware.access.token = TOKEN
            async with serving(head) as url:
                yield LoopbackGym(url, engine, gym, head)


@contextmanager
def gym_in_a_thread(**options: Any) -> Iterator[LoopbackGym]:
    """The gym in an event loop of its own, for clients that block."""
    with LoopbackServers() as servers:
        yield servers.enter(running_gym(**options))
