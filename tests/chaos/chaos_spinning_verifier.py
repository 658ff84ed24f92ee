"""A verifier that never ends in one of 200 rollouts: it is killed, and the others finish."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence

import orjson

from nemo_gym.processes.workers import default_pool
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.server_client import ServerReply
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.chaos.faulty_gym import tell
from tests.resources.computing import ComputingEnvironment
from tests.serving.environments import ScriptedModel

ROLLOUTS, IN_PARALLEL, CULPRIT = 200, 16, 57
MODEL_TAKES_S = 0.2
TIMEOUT_S = 2.0


async def collect(modes: Sequence[str]) -> list[ServerReply]:
    """One rollout for each mode of the verifier, some in parallel; what the agent answers."""
    gym = InProcessGym()
    environment = gym.add(ComputingEnvironment, "env", verify_timeout_s=TIMEOUT_S)
    model = gym.add(ScriptedModel, "policy_model")
    assert isinstance(environment, ComputingEnvironment)
    assert isinstance(model, ScriptedModel)
    model.turns = [MODEL_TAKES_S] * len(modes)
    gym.add(
        SimpleAgent,
        "agent",
        resources_server={"type": "resources_servers", "name": "env"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    await environment.warm_workers()
    places = asyncio.Semaphore(IN_PARALLEL)

    async def roll_out(mode: str) -> ServerReply:
        async with places:
            return await gym.post("agent", "/run", {"responses_create_params": {"input": "hi"}, "mode": mode})

    async with gym.running(over_http=True):
        return await asyncio.gather(*(roll_out(mode) for mode in modes))


def p99_of(replies: Sequence[ServerReply]) -> float:
    seconds = [orjson.loads(reply.body)["_ng_timing"]["total"] for reply in replies if reply.ok]
    return float(statistics.quantiles(seconds, n=100)[98])


async def test_all_others_finish() -> None:
    modes = ["spin" if place == CULPRIT else "score" for place in range(ROLLOUTS)]
    clean = p99_of(await collect(["score"] * ROLLOUTS))
    workers = default_pool().stats.workers
    replies = await collect(modes)
    failed = {place: orjson.loads(reply.body)["error"] for place, reply in enumerate(replies) if not reply.ok}
    after = default_pool().stats
    tell(
        "spinning verifier",
        finished=ROLLOUTS - len(failed),
        failed={place: error["code"] for place, error in failed.items()},
        p99_clean_s=round(clean, 3),
        p99_s=round(p99_of(replies), 3),
        workers=[workers, after.workers],
        killed=after.killed,
    )
    assert {place: error["code"] for place, error in failed.items()} == {CULPRIT: "verifier_timeout"}
    assert (after.workers, after.busy) == (workers, 0)
    assert after.killed >= 1, "a busy machine may starve another worker, whose call is made again"
