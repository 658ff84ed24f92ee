"""An agent loop for verl that takes each rollout from a gym.

    # agent.yaml, which actor_rollout_ref.rollout.agent.agent_loop_config_path names
    - name: nemo_gym
      _target_: nemo_gym.client.verl_loop.GymAgentLoop
      url: http://127.0.0.1:11000

`policy_base_url` of the gym is the address of verl's rollout servers. verl's rows come from `build_verl_row`. The first
token sequence of a rollout is trained on: verl takes one. A rollout that failed in all of its attempts raises its
failure, because verl has no sample without a reward.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import aclosing
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from nemo_gym.client._gym import AsyncGym
from nemo_gym.client._rollout import Rollout
from nemo_gym.client.trl import build_tamperable_error
from nemo_gym.failures import ConfigError, build_error
from nemo_gym.rows.calls import read_versions
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_output, read_params

AGENT = "nemo_gym"
_ROW = "nemo_gym_row"
_SAMPLING = ("temperature", "top_p")
"""verl's sampling parameters that are also those of a request to a model."""


def build_verl_row(row: AnyRow, number: int) -> dict[str, Any]:
    """Return a row for verl's `RLHFDataset`, from which the loop takes the task."""
    given = read_params(row)["input"]
    prompt = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return {
        "data_source": AGENT,
        "agent_name": AGENT,
        "prompt": prompt,
        "reward_model": {"style": AGENT, "ground_truth": ""},
        "extra_info": {"index": number, _ROW: json.dumps(row)},
    }


class GymAgentLoop(AgentLoopBase):  # type: ignore[misc]  # verl has no types
    """Runs one rollout of the task in `extra_info`."""

    def __init__(
        self,
        *args: Any,
        url: str | None = None,
        token: str | None = None,
        allow_tamperable: bool = False,
        **kwargs: Any,
    ) -> None:
        """`url`, `token`: as for `Gym.connect`. `allow_tamperable`: accept rewards that an answer could have forged."""
        super().__init__(*args, **kwargs)
        self._gym = AsyncGym.connect(url=url, token=token)
        self._allow_tamperable = allow_tamperable

    async def run(self, sampling_params: Mapping[str, Any], **kwargs: Any) -> AgentLoopOutput:
        """Return the rollout. Raises `GymError` if it failed, and `ConfigError` if it cannot be trained on."""
        told = (kwargs.get("extra_info") or {}).get(_ROW)
        if told is None:
            raise ConfigError(
                f"extra_info has no `{_ROW}`",
                code="no_task",
                remedy="Build the rows of the dataset by build_verl_row.",
            )
        began = time.perf_counter()
        sampling = {name: sampling_params[name] for name in _SAMPLING if name in sampling_params}
        rollouts = self._gym.rollouts([json.loads(told)], responses_create_params=sampling)
        async with aclosing(rollouts):
            (rollout,) = [each async for each in rollouts]
        if rollout.is_tamperable and not self._allow_tamperable:
            raise build_tamperable_error(rollout)
        fields = build_output(rollout, self.rollout_config.response_length)
        return AgentLoopOutput(
            metrics=AgentLoopMetrics(generate_sequences=time.perf_counter() - began), **fields
        )


def build_output(rollout: Rollout, response_length: int) -> dict[str, Any]:
    """Return the fields of verl's `AgentLoopOutput`. Raises as `GymAgentLoop.run`."""
    if rollout.failure is not None:
        raise build_error(rollout.failure)
    first = next((each for each in rollout.segments if each.sampled), None)
    if first is None:
        raise ConfigError(
            "the rollout has no token ids to train on",
            code="no_token_ids",
            remedy="Set return_token_id_information: true on the model server; _ng_tokens explains each masked call.",
        )
    start = first.loss_mask.index(1)
    end = start + response_length
    mask = first.loss_mask[start:end]
    fields: dict[str, Any] = {"turn_scores": [], "tool_rewards": []}
    if (versions := read_versions(rollout.row)) is not None:
        fields |= {"min_global_steps": versions[0], "max_global_steps": versions[1]}
    return {
        "prompt_ids": first.token_ids[:start],
        "response_ids": first.token_ids[start:end],
        "response_mask": [0] * len(mask) if rollout.is_masked else mask,
        "response_logprobs": [each or 0.0 for each in first.logprobs[start:end]],
        "reward_score": rollout.reward,
        "num_turns": 1 + sum(item.get("type") == "message" for item in read_output(rollout.row)),
        "extra_fields": fields,
    }
