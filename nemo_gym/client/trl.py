"""Rollouts in the form that TRL's `GRPOTrainer` takes from its `rollout_func`.

    def rollout_func(prompts, trainer):
        rows = [task_of[prompt] for prompt in prompts]      # TRL has repeated the prompts already
        return for_trl(gym.rollouts(rows), len(rows), trainer.processing_class)

    GRPOTrainer(..., rollout_func=rollout_func, reward_funcs=gym_reward)

What the policy sampled is trained on; the outputs of tools and whatever else it was given are masked. A rollout that
failed, or is marked as not to be trained on, has no reward: TRL keeps it out of the group's baseline and learns
nothing from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nemo_gym.client._rollout import Rollout
from nemo_gym.failures import ConfigError

REWARD_COLUMN = "gym_rewards"


def for_trl(rollouts: Iterable[Rollout], count: int, tokenizer: Any) -> dict[str, list[Any]]:
    """The columns of `rollout_func`, one entry for each of `count` prompts, in their order.

    Of a rollout whose token prefix was rewritten on the way, the first segment is trained on: TRL takes one sequence.

    Raises:
        ConfigError: rollouts were scored, and none carries token ids, so that nothing would be learnt.
    """
    columns: dict[str, list[Any]] = {
        "prompt_ids": [[tokenizer.eos_token_id]] * count,
        "completion_ids": [[tokenizer.eos_token_id]] * count,
        "logprobs": [[0.0]] * count,
        "env_mask": [[0]] * count,
        REWARD_COLUMN: [None] * count,
    }
    scored = trained = 0
    for rollout in rollouts:
        if rollout.reward is None or rollout.is_masked:
            continue
        scored += 1
        segments = rollout.segments
        if not segments:
            continue
        trained += 1
        first = segments[0]
        start = first.loss_mask.index(1)
        columns["prompt_ids"][rollout.task] = first.token_ids[:start]
        columns["completion_ids"][rollout.task] = first.token_ids[start:]
        columns["logprobs"][rollout.task] = [logprob or 0.0 for logprob in first.logprobs[start:]]
        columns["env_mask"][rollout.task] = first.loss_mask[start:]
        columns[REWARD_COLUMN][rollout.task] = rollout.reward
    if scored and not trained:
        raise ConfigError(
            f"none of {scored} scored rollouts carries token ids to train on",
            code="no_token_ids",
            remedy="Set return_token_id_information: true on the model server; masked calls say why in _ng_tokens.",
        )
    return columns


def gym_reward(completions: Sequence[Any], **columns: Any) -> list[float | None]:
    """The reward function for `GRPOTrainer`: what the gym's verifiers gave, None where there is nothing to learn."""
    rewards: list[float | None] = columns[REWARD_COLUMN]
    return rewards
