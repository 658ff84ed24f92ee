"""A gym whose policy is a transformers model in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from nemo_gym.base_resources_server import BaseVerifyRequest, BaseVerifyResponse
from nemo_gym.client import Gym
from nemo_gym.config_types import BaseRunServerInstanceConfig
from nemo_gym.head.server import HeadServer
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.testing.serving import LoopbackServers, serving
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.vllm_model.app import VLLMModel
from tests.client.gyms import ADD, AGENT, TOKEN
from tests.serving.environments import CounterEnvironment

UNSCORABLE = "Break the verifier."
"""A task that fails."""


class LettersEnvironment(CounterEnvironment):
    """The reward is how many of the letter e the policy wrote."""

    async def verify(  # type: ignore[override]
        self, body: BaseVerifyRequest
    ) -> BaseVerifyResponse:
        said = body.model_dump_json()
        if UNSCORABLE in said:
            raise RuntimeError("a bug in the verifier")
        return BaseVerifyResponse(**body.model_dump(), reward=float(body.response.output_text.count("e")))


def task(words: str, *, after_a_tool_call: bool = False) -> dict[str, Any]:
    """A task row; with `after_a_tool_call` a model that knows nothing goes on from a call that it never made."""
    history = [
        {"role": "user", "content": words},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"amount": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": '{"count": 1}'},
    ]
    return {
        "responses_create_params": {
            "input": history if after_a_tool_call else words,
            "tools": [ADD],
            "max_output_tokens": 24,
        },
        "agent_ref": {"type": "responses_api_agents", "name": AGENT},
    }


@contextmanager
def policy_gym(engine_app: Any) -> Iterator[Gym]:
    """Head, agent, environment and model server on loopback ports, and the engine that answers for the policy."""
    with LoopbackServers() as servers:
        yield Gym.connect(url=servers.enter(_running(engine_app)), token=TOKEN)


@asynccontextmanager
async def _running(engine_app: Any) -> AsyncIterator[str]:
    async with serving(engine_app) as engine_url:
        gym = InProcessGym()
        gym.add(LettersEnvironment, "env")
        gym.add(
            VLLMModel,
            "policy_model",
            base_url=f"{engine_url}/v1",
            api_key="none",
            model="policy",
            return_token_id_information=True,
            token_fields="packed",
        )
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
            async with serving(head) as head_url:
                yield head_url
