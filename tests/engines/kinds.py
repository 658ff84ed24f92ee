"""All kinds of model servers, each in front of an engine with the API of its upstream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from openai import OpenAI

from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.serving.base import SimpleServer
from nemo_gym.testing.serving import LoopbackServers
from responses_api_models.azure_openai_model.app import AzureOpenAIModel
from responses_api_models.openai_model.app import OpenAIModel
from responses_api_models.replay_model.app import ReplayModel
from responses_api_models.scripted_model.app import ScriptedModel
from responses_api_models.vllm_model.app import VLLMModel
from tests.engines import scenarios
from tests.engines.upstreams import RecordingUpstream, StrictOpenAI

MODEL = "mock"
OPTIONS = EngineOptions(model=MODEL, policy="tools", think=True)


@dataclass
class Ground:
    """The upstreams of the servers under test."""

    servers: LoopbackServers
    folder: Path

    def engine_url(self) -> str:
        return self.servers.enter(MockEngine(OPTIONS)).base_url

    def upstream(self, *, is_openai: bool = False) -> tuple[str, RecordingUpstream]:
        """An engine that remembers what it is sent, and its base URL."""
        app: Any = MockEngine(OPTIONS).app
        upstream = RecordingUpstream(StrictOpenAI(app) if is_openai else app)
        return f"{self.servers.serve(upstream)}/v1", upstream


Build: TypeAlias = Callable[[Ground], SimpleServer]


def openai_options(ground: Ground, **options: Any) -> dict[str, Any]:
    url, _ = ground.upstream(is_openai=True)
    return {"openai_base_url": url, "openai_api_key": "key", "openai_model": MODEL, **options}


def vllm_options(ground: Ground, **options: Any) -> dict[str, Any]:
    return {"base_url": ground.engine_url(), "api_key": "key", "model": MODEL, **options}


def replay(ground: Ground) -> SimpleServer:
    """A replay of what a vLLM server answered to the same scenarios."""
    recordings = ground.folder / "recordings.jsonl"
    recorded = VLLMModel.standalone(**vllm_options(ground, record_to=str(recordings)))
    client = OpenAI(base_url=f"{ground.servers.serve(recorded)}/v1", api_key="none", max_retries=0)
    for scenario in scenarios.ALL:
        scenario(client)
    return ReplayModel.standalone(recordings=[str(recordings)], model=MODEL)


KINDS: dict[str, Build] = {
    "openai": lambda ground: OpenAIModel.standalone(**openai_options(ground)),
    "openai_responses": lambda ground: OpenAIModel.standalone(
        **openai_options(ground, upstream_api="responses")
    ),
    "openai_chat": lambda ground: OpenAIModel.standalone(
        **openai_options(ground, upstream_api="chat_completions")
    ),
    "azure": lambda ground: AzureOpenAIModel.standalone(
        **openai_options(ground, default_query={"api-version": "2025-04-01-preview"})
    ),
    "vllm": lambda ground: VLLMModel.standalone(**vllm_options(ground)),
    "vllm_training": lambda ground: VLLMModel.standalone(
        **vllm_options(ground, return_token_id_information=True)
    ),
    "vllm_native": lambda ground: VLLMModel.standalone(**vllm_options(ground, is_responses_native=True)),
    "vllm_replicas": lambda ground: VLLMModel.standalone(
        **vllm_options(ground, base_url=[ground.engine_url(), ground.engine_url()])
    ),
    "scripted": lambda ground: ScriptedModel.standalone(
        model=MODEL, engine={"policy": "tools", "think": True}
    ),
    "replay": replay,
}
