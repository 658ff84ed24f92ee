"""Trainers' calls of a gym, re-enacted from the contract: NeMo RL and verl embed one, TRL uses one over HTTP."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from omegaconf import DictConfig

from nemo_gym.cli import GlobalConfigDictParserConfig, RunHelper
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.global_config import (
    get_first_server_config_dict,
    get_global_config_dict,
    set_global_config_dict,
)
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from nemo_gym.rollout_collection import RolloutCollectionHelper
from nemo_gym.transport.pools import process_transport
from tests.ecosystem.conftest import RunningGym, read_rows


@pytest.fixture(autouse=True)
async def connections() -> AsyncIterator[None]:
    """A trainer's event loop lives on; these tests have one each, and close what it holds open."""
    yield
    await process_transport().close()


@pytest.fixture(scope="module")
def embedded(project: Path, environment: dict[str, str]) -> Iterator[BaseServerConfig]:
    """A gym as NeMo RL starts it, on an engine that gives token ids; where its head server listens."""
    with EngineProcess(EngineOptions()) as engine, pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        patch.setenv("XDG_RUNTIME_DIR", environment["XDG_RUNTIME_DIR"])
        initial = {
            "config_paths": [
                "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml",
                "resources_servers/session_counter/configs/session_counter.yaml",
                "resources_servers/multi_reward/configs/multi_reward.yaml",
                "responses_api_agents/solo_agent/configs/solo_agent.yaml",
            ],
            "policy_base_url": [engine.base_url],
            "policy_api_key": "dummy",
            "policy_model_name": "mock",
            "head_server": {"host": "127.0.0.1", "port": 0},
            "default_host": "127.0.0.1",
            "port_range_low": 20_000,
            "port_range_high": 60_000,
            "global_aiohttp_connector_limit": 1024,
            "global_aiohttp_connector_limit_per_host": 512,
            "ray_head_node_address": "127.0.0.1:6379",
        }
        helper = RunHelper()
        helper.start(
            global_config_dict_parser_config=GlobalConfigDictParserConfig(
                dotenv_path=project / "no_such_env.yaml",
                initial_global_config_dict=DictConfig(initial),
                skip_load_from_cli=True,
            )
        )
        try:
            helper.poll()
            head = urlsplit(str(helper.head_url))
            yield BaseServerConfig(host=str(head.hostname), port=int(head.port or 0))
            helper.poll()
        finally:
            helper.shutdown()
            set_global_config_dict(None)


def counter_rows(project: Path, agent: str = "session_counter_simple_agent") -> list[dict[str, Any]]:
    """As a trainer holds them: with the agent's name, and an index of its own."""
    rows = read_rows(project / "resources_servers" / "session_counter" / "data" / "example.jsonl")
    reference = {"type": "responses_api_agents", "name": agent}
    return [{**row, "agent_ref": reference, "_rowidx": index} for index, row in enumerate(rows)]


@pytest.mark.parametrize("semaphore", [None, 2])
async def test_rows_come_back_in_completion_order_each_with_its_result(
    embedded: BaseServerConfig, project: Path, semaphore: int | None
) -> None:
    rows = counter_rows(project)
    bound = None if semaphore is None else asyncio.Semaphore(semaphore)
    results = RolloutCollectionHelper().run_examples(
        examples=rows, head_server_config=embedded, semaphore=bound
    )
    seen = {}
    for awaitable in results:
        row, result = await awaitable
        seen[row["_rowidx"]] = result
    assert {index: result["reward"] for index, result in seen.items()} == {
        index: row["expected_reward"] for index, row in enumerate(rows)
    }


async def test_the_tokens_of_a_rollout_link_up_as_a_trainer_asserts(
    embedded: BaseServerConfig, project: Path
) -> None:
    for awaitable in RolloutCollectionHelper().run_examples(
        counter_rows(project), head_server_config=embedded
    ):
        _, result = await awaitable
        trained = [item for item in result["response"]["output"] if item.get("generation_token_ids")]
        assert len(trained) == 3, "two calls of tools and an answer"
        seen: list[int] = []
        for item in trained:
            prompt, generated = item["prompt_token_ids"], item["generation_token_ids"]
            assert prompt[: len(seen)] == seen
            assert len(item["generation_log_probs"]) == len(generated)
            assert all(logprob == logprob for logprob in item["generation_log_probs"])
            seen = [*prompt, *generated]


async def test_a_failed_call_raises_with_its_status_and_body_and_spoils_no_other(
    embedded: BaseServerConfig, project: Path
) -> None:
    solo = {
        "responses_create_params": {"input": "Say: hello"},
        "trouble": "teapot",
        "agent_ref": {"type": "responses_api_agents", "name": "solo_agent"},
    }
    caught: list[Any] = []
    results = []
    for awaitable in RolloutCollectionHelper().run_examples(
        [solo, *counter_rows(project)], head_server_config=embedded, semaphore=nullcontext()
    ):
        try:
            results.append((await awaitable)[1])
        except Exception as error:  # noqa: BLE001 - as in a trainer, which logs it
            caught.append(error)
    (failed,) = caught
    assert failed.status == 418
    assert json.loads(failed.response_content) == {"detail": "I am a teapot"}
    assert len(results) == 3


def test_the_embedding_program_gets_every_address(embedded: BaseServerConfig) -> None:
    block = get_first_server_config_dict(get_global_config_dict(), "session_counter_simple_agent")
    with urllib.request.urlopen(f"http://{block['host']}:{block['port']}/", timeout=30) as answer:
        assert json.loads(answer.read()) == {"status": "ok"}


def test_a_trainer_without_our_package_reads_the_configuration_and_posts_to_the_agent(
    gym: RunningGym,
) -> None:
    with urllib.request.urlopen(f"{gym.head}/global_config_dict_yaml", timeout=30) as answer:
        config = yaml.safe_load(json.loads(answer.read()))
    (agent,) = config["session_counter_simple_agent"]["responses_api_agents"].values()
    row = counter_rows(gym.project)[0]
    request = urllib.request.Request(
        f"http://{agent['host']}:{agent['port']}/run",
        json.dumps(row).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        scored = json.loads(answer.read())
    assert scored["reward"] == row["expected_reward"]
    assert scored["response"]["output"]
