"""Rollouts of a transformers model through a whole gym: what is exported is what the model computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.client import Gym
from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.servers.head import HeadServer
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.testing.serving import LoopbackServers, serving
from tests.client.gyms import ADD, AGENT, TOKEN
from tests.export.rows import read, write

PATIENCE = 1e-3


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The model, and rows of two turns: a random model is told to call a tool by a policy around it."""
    from contextlib import asynccontextmanager

    from nemo_gym.config_types import BaseRunServerInstanceConfig
    from nemo_gym.testing.tiny_model import make_model, make_tokenizer
    from nemo_gym.testing.transformers_engine import TransformersEngine
    from responses_api_agents.simple_agent.app import SimpleAgent
    from responses_api_models.vllm_model.app import VLLMModel
    from tests.servers.environments import CounterEnvironment

    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    engine = TransformersEngine(model, tokenizer)

    @asynccontextmanager
    async def running() -> Any:
        async with serving(engine.app) as url:
            gym = InProcessGym()
            gym.add(CounterEnvironment, "env")
            gym.add(
                VLLMModel,
                "policy_model",
                base_url=f"{url}/v1",
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
                config = BaseRunServerInstanceConfig(
                    host="127.0.0.1", port=0, entrypoint="", name="head_server"
                )
                head = HeadServer(config=config, server_client=gym.client())
                head.gate.token = TOKEN
                async with serving(head) as head_url:
                    yield head_url

    history = [
        {"role": "user", "content": "Add 1."},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"amount": 1}'},
        {"type": "function_call_output", "call_id": "c", "output": '{"count": 1}'},
    ]
    rows = [
        {
            "responses_create_params": {"input": given, "tools": [ADD], "max_output_tokens": 24},
            "agent_ref": {"type": "responses_api_agents", "name": AGENT},
        }
        for given in ("Say something.", history)
    ]
    with LoopbackServers() as servers:
        gym = Gym.connect(url=servers.enter(running()), token=TOKEN)
        gym.update_policy(7)
        found = [dict(each.row) for each in gym.rollouts(rows, num_repeats=4)]
    assert not [each for each in found if "_ng_failure" in each]
    return model, found


def test_exported_logprobs_are_those_of_the_model(rollouts: Any, tmp_path: Path) -> None:
    import torch

    model, rows = rollouts
    path = tmp_path / "grpo.jsonl"
    export(ExportSettings("grpo", (write(tmp_path / "rows.jsonl", rows),), path))
    written = read(path)
    assert len(written) == len(rows) == 8
    for row in written:
        assert row["policy_versions"] == [7]
        for segment in row["segments"]:
            ids = torch.tensor([segment["input_ids"]])
            with torch.no_grad():
                logprobs = torch.log_softmax(model(ids).logits[0].float(), dim=-1)
            for place, told in enumerate(segment["logprobs"]):
                if told is not None:
                    assert abs(float(logprobs[place - 1, ids[0, place]]) - told) < PATIENCE
            assert sum(segment["loss_mask"]) == sum(told is not None for told in segment["logprobs"]) > 0
