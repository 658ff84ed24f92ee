"""The agent loop for verl, on a stand-in for verl's own classes. `tests/train` runs it with verl's."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from nemo_gym.client import GymAddress, Rollout
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from tests.client.gyms import TOKEN, gym_in_a_thread, rows

MODULE = "nemo_gym.client.verl_loop"
VERLS = "verl.experimental.agent_loop.agent_loop"
LENGTH = 1000


class AgentLoopBase:
    def __init__(self) -> None:
        self.rollout_config = SimpleNamespace(response_length=LENGTH)


@pytest.fixture
def verl_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    parts = VERLS.split(".")
    for end in range(1, len(parts) + 1):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
    for name, value in {
        "AgentLoopBase": AgentLoopBase,
        "AgentLoopMetrics": SimpleNamespace,
        "AgentLoopOutput": SimpleNamespace,
    }.items():
        monkeypatch.setattr(sys.modules[VERLS], name, value, raising=False)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    yield importlib.import_module(MODULE)
    sys.modules.pop(MODULE, None)


def run(loop: Any, row: dict[str, Any]) -> Any:
    return asyncio.run(loop.run({"temperature": 0.5, "logprobs": True}, **row))


def test_a_rollout_becomes_the_sample_of_its_tokens(verl_loop: Any) -> None:
    (task,) = rows(1)
    with gym_in_a_thread(with_tokens=True) as running:
        loop = verl_loop.GymAgentLoop(url=running.url, token=TOKEN)
        output = run(loop, verl_loop.build_verl_row(task, 3))
    assert output.prompt_ids
    assert len(output.response_ids) == len(output.response_mask) == len(output.response_logprobs)
    assert output.response_mask[0] == 1
    assert 0 in output.response_mask, "the output of the tool is context"
    assert not any(
        logprob
        for bit, logprob in zip(output.response_mask, output.response_logprobs, strict=True)
        if not bit
    )
    assert isinstance(output.reward_score, float)
    assert output.num_turns == 2
    assert output.metrics.generate_sequences > 0


def test_a_row_has_the_prompt_that_verl_reads_and_the_task(verl_loop: Any) -> None:
    row = verl_loop.build_verl_row(rows(1)[0], 3)
    assert row["prompt"] == [{"role": "user", "content": "Add 0."}]
    assert (row["agent_name"], row["extra_info"]["index"]) == ("nemo_gym", 3)
    messages = [{"role": "system", "content": "Be brief."}]
    assert verl_loop.build_verl_row({"responses_create_params": {"input": messages}}, 0)["prompt"] == messages


def test_a_sample_that_cannot_be_trained_on_is_an_error(verl_loop: Any) -> None:
    (task,) = rows(1)
    broken = {**task, "responses_create_params": {"input": "?", "tools": "none"}}
    with gym_in_a_thread() as running:
        loop = verl_loop.GymAgentLoop(url=running.url, token=TOKEN)
        with pytest.raises(ConfigError, match="extra_info has no `nemo_gym_row`"):
            run(loop, {})
        with pytest.raises(ConfigError, match="no token ids to train on"):
            run(loop, verl_loop.build_verl_row(task, 0))
        with pytest.raises(GymError, match="See the log of `agent`"):
            run(loop, verl_loop.build_verl_row(broken, 0))


def test_a_masked_rollout_is_not_trained_on_and_a_long_one_is_cut(verl_loop: Any) -> None:
    with gym_in_a_thread(with_tokens=True) as running:
        from nemo_gym.client import Gym

        (rollout,) = Gym(GymAddress(running.url, TOKEN)).rollouts(rows(1))
    (segment,) = build_segments(read_calls(rollout.row))
    start = segment.loss_mask.index(1)
    cut = verl_loop.build_output(rollout, 5)
    assert cut["response_ids"] == segment.token_ids[start : start + 5]
    assert len(cut["response_mask"]) == len(cut["response_logprobs"]) == 5
    masked = verl_loop.build_output(Rollout({**rollout.row, "mask_sample": True}), LENGTH)
    assert not any(masked["response_mask"])
