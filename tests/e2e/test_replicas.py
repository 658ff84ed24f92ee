"""`num_workers: 4` on an environment with state in memory: a session stays with the replica that holds its state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.transport import Call, HttpTransport
from perf.running_gym import RunningGym, running_gym

ENVIRONMENT = "example_session_state_mgmt"
AGENT = f"{ENVIRONMENT}_simple_agent"
CONFIGS = (
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml,"
    "responses_api_models/scripted_model/configs/scripted_model.yaml"
)
SCRIPTED = "++policy_model.responses_api_models.scripted_model.engine"
REPLICAS, SESSIONS = 4, 1_000
REWARDS = [1.0, 1.0, 1.0, 1.0, 0.0]
"""The turns of the script in each of the five tasks. It miscounts in the last."""


@pytest.fixture
def gym() -> Iterator[RunningGym]:
    overrides = [
        f"+config_paths=[{CONFIGS}]",
        f"++{ENVIRONMENT}.resources_servers.{ENVIRONMENT}.num_workers={REPLICAS}",
        f"{SCRIPTED}.policy=script",
        f"{SCRIPTED}.script=configs/demo/counter_script.yaml",
        f"{SCRIPTED}.latency_s=0.05",  # so that sessions are open side by side
    ]
    with running_gym(overrides) as gym:
        yield gym


async def test_a_session_never_sees_another_replica(gym: RunningGym) -> None:
    replicas = gym.urls[ENVIRONMENT]
    assert len(set(replicas)) == REPLICAS
    tasks = (PARENT_DIR / f"resources_servers/{ENVIRONMENT}/data/example.jsonl").read_bytes().splitlines()
    transport = HttpTransport()

    async def attempt(number: int) -> dict[str, Any]:
        row = tasks[number % len(tasks)]
        reply = await transport.send(
            gym.urls[AGENT][0], Call("POST", "/run", row, {"content-type": "application/json"})
        )
        assert reply.ok, reply.body
        scored: dict[str, Any] = orjson.loads(reply.body)
        return scored

    rows = await asyncio.gather(*(attempt(number) for number in range(SESSIONS)))
    stats = [(await transport.send(url, Call("GET", "/_ng/stats"))).json() for url in replicas]
    await transport.close()

    assert [row["reward"] for row in rows] == [REWARDS[number % len(tasks)] for number in range(SESSIONS)]
    calls = sum(_tool_calls(row) for row in rows)
    # A session that came to another replica would be refused there (`session_lost`), and sent again or failed.
    assert [each["errors"] for each in stats] == [0] * REPLICAS
    assert [each["sessions_open"] for each in stats] == [0] * REPLICAS
    served = [each["requests"] for each in stats]
    assert sum(served) >= calls + 3 * SESSIONS, "opening, verifying and closing, and the tools"
    assert min(served) > max(served) / 3, f"the sessions are spread over the replicas: {served}"


def _tool_calls(row: dict[str, Any]) -> int:
    return sum(item["type"] == "function_call" for item in row["response"]["output"])
