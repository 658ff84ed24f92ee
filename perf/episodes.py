"""The three measured episodes: their tasks, the policy's turns, and their numbers of hops."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.mock_engine import EngineOptions

VLLM_CONFIG = "responses_api_models/vllm_model/configs/vllm_model.yaml"
_TURNS = 20


@dataclass(frozen=True, slots=True)
class Episode:
    """One kind of attempt. Its reward is always 1."""

    environment: str
    row: dict[str, Any]
    model_calls: int
    tool_calls: int = 0
    policy: dict[str, Any] = field(default_factory=dict)
    """Options of the engine stub."""
    script: tuple[dict[str, Any], ...] = ()
    """The policy's turns, if the options do not define them."""

    @property
    def agent(self) -> str:
        return f"{self.environment}_simple_agent"

    @property
    def configs(self) -> str:
        environment = f"resources_servers/{self.environment}/configs/{self.environment}.yaml"
        return f"+config_paths=[{environment},{VLLM_CONFIG}]"

    @property
    def hops(self) -> tuple[int, int]:
        """The number of requests to the gym's servers (run, open, close, verify, model, tools)."""
        answered = 4 + self.model_calls + self.tool_calls
        return answered, answered - 1 + self.model_calls

    def body(self) -> bytes:
        """The body of `POST /run`."""
        return orjson.dumps(self.row)

    def engine_options(self, latency_s: float, folder: Path) -> EngineOptions:
        options: dict[str, Any] = {**self.policy, "latency_s": latency_s}
        if self.script:
            script = folder / "script.json"
            script.write_bytes(orjson.dumps([{"turns": self.script}]))
            options |= {"policy": "script", "script": script}
        return EngineOptions.model_validate(options)


def _asking(content: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    return {"responses_create_params": {"input": [{"role": "user", "content": content}], "tools": tools}}


_GET_WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The city."}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def calling_episode(turns: int, *, tokens: int | None = None) -> Episode:
    """Return the episode of `turns` model calls, each but the last with a tool call.

    `tokens`: the least number of tokens of each answer.
    """
    return Episode(
        "example_single_tool_call",
        _asking("How warm is it in each of these cities?", [_GET_WEATHER]),
        model_calls=turns,
        tool_calls=turns - 1,
        policy={} if tokens is None else {"tokens": tokens, "max_model_len": 2 * turns * (tokens + 100)},
        script=(
            *(
                {"tool_calls": [{"name": "get_weather", "arguments": {"city": f"city {n}"}}]}
                for n in range(1, turns)
            ),
            {"text": "It is warm everywhere."},
        ),
    )


EPISODES = {
    "single-step": Episode(
        "string_match",
        {**_asking("carbon dioxide", []), "expected_answer": "carbon dioxide", "extraction_mode": "full_response"},
        model_calls=1,
        policy={"policy": "echo"},
    ),
    "tool-calling": Episode(
        "example_single_tool_call",
        _asking("What is the weather like in San Francisco?", [_GET_WEATHER]),
        model_calls=2,
        tool_calls=1,
        policy={"policy": "tools"},
    ),
    "20-turn": calling_episode(_TURNS),
}  # fmt: skip
