"""A synchronous `verify` runs in a worker, is killed at its deadline, and does not block other requests."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import orjson
import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.processes.workers import default_pool
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.server_client import ServerReply
from tests.resources.computing import ComputingEnvironment, EchoEnvironment, StatefulEnvironment
from tests.resources.test_answer_fault_rule import body_of
from tests.resources.unreadable import NO_REWARDS, UNREADABLE
from tests.serving.environments import VERIFY


@pytest.fixture
async def gym() -> InProcessGym:
    """A gym whose workers have already built the environment."""
    gym = InProcessGym()
    environment = gym.add(ComputingEnvironment, "env", factor=3.0, verify_timeout_s=0.5)
    assert isinstance(environment, ComputingEnvironment)
    await environment.warm_workers()
    return gym


async def verify(gym: InProcessGym, **fields: Any) -> ServerReply:
    return await gym.post("env", "/verify", {**VERIFY, **fields})


async def test_verify_uses_config_and_setup_and_runs_in_another_process(gym: InProcessGym) -> None:
    scored = await (await verify(gym, mode="score")).json()
    assert (scored["reward"], scored["mode"]) == (6.0, "score")
    assert scored["pid"] != os.getpid()


async def test_errors_in_the_worker_reach_the_caller(gym: InProcessGym) -> None:
    refused = await (await verify(gym, mode="refuse")).json()
    assert (refused["error"]["type"], refused["error"]["code"]) == ("input", "invalid_row")
    raised = await (await verify(gym, mode="raise")).json()
    assert raised["error"]["code"] == "verifier_raised"
    assert "verify raised ZeroDivisionError: by zero" in raised["error"]["message"]
    invalid = await verify(gym)
    assert invalid.status == 422
    assert "mode" in invalid.body.decode()


async def test_an_endless_verify_is_killed_and_the_others_finish(gym: InProcessGym) -> None:
    before = default_pool().stats
    replies = await asyncio.gather(*(verify(gym, mode="spin" if n == 3 else "score") for n in range(20)))
    culprits = [n for n, reply in enumerate(replies) if not reply.ok]
    assert culprits == [3]
    error = orjson.loads(replies[3].body)["error"]
    assert (error["type"], error["code"], error["retryable"]) == ("verifier", "verifier_timeout", False)
    assert "0.5 s" in error["message"]
    after = default_pool().stats
    # The control of the environment is endless too.
    assert (after.killed - before.killed, after.busy, after.workers) == (
        2,
        0,
        before.workers or after.workers,
    )


async def test_a_disconnected_caller_ends_the_computation(gym: InProcessGym) -> None:
    killed = default_pool().stats.killed
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(verify(gym, mode="spin"), 0.1)
    stats = default_pool().stats
    assert (stats.killed, stats.busy) == (killed + 1, 0)


async def test_the_server_s_stats_include_its_workers(gym: InProcessGym) -> None:
    await verify(gym, mode="score")
    pools = orjson.loads((await gym.client().get("env", "/_ng/stats")).body)["workers"]
    assert any(workers["completed"] >= 1 for workers in pools)


def test_a_synchronous_verify_that_needs_the_session_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="neither the request nor the sessions"):
        StatefulEnvironment.standalone().setup_webserver()


async def echoed(text: str, mode: str = "score") -> dict[str, Any]:
    gym = InProcessGym()
    gym.add(EchoEnvironment, "env")
    body = json.dumps({**body_of(text), "mode": mode, "digits": 10**30}).encode()
    answer: dict[str, Any] = orjson.loads((await gym.client().post("env", "/verify", data=body)).body)
    return answer


@pytest.mark.parametrize("text", [*UNREADABLE, *NO_REWARDS, "raise", "raise\ud800"])
async def test_an_answer_whose_verdict_no_row_can_hold_scores_0(text: str) -> None:
    row = await echoed(text)
    if text == "raise\ud800":  # a half of a pair in the answer is replaced before `verify`
        assert row["echo"] == "raise\ufffd"
        return
    assert (row["reward"], row["answer_fault"], row["mode"]) == (0.0, "raised", "score")
    assert row["answer_fault_detail"]
    assert row["failure_reason"] == f"raised: {row['answer_fault_detail']}"
    assert "_in_worker" not in row["answer_fault_detail"]
    assert row["response"]["output"][0]["content"][0]["text"] == text


async def test_an_answer_with_half_a_pair_that_breaks_a_verify_scores_0() -> None:
    gym = InProcessGym()
    gym.add(EchoEnvironment, "env")
    attempt = body_of("surrogate")
    attempt["response"]["metadata"] = {"note": "\ud800"}
    body = json.dumps({**attempt, "mode": "score"}).encode()
    row = orjson.loads((await gym.client().post("env", "/verify", data=body)).body)
    assert (row["reward"], row["answer_fault"]) == (0.0, "raised")


async def test_an_environment_whose_verdict_no_row_can_hold_fails() -> None:
    assert (await echoed("1", mode="broken"))["error"]["code"] == "verifier_raised"
