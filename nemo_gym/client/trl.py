"""Rollouts in the form of a `rollout_func` of TRL's `GRPOTrainer`.

    def rollout_func(prompts, trainer):
        rows = [task_of[prompt] for prompt in prompts]      # TRL has repeated the prompts already
        return for_trl(gym.rollouts(rows), len(rows), trainer.processing_class)

    GRPOTrainer(..., rollout_func=rollout_func, reward_funcs=gym_reward)

Sampled tokens are trained on; tool outputs and all other input are masked. Failed and masked rollouts have no reward:
TRL excludes them from the group's baseline and from training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nemo_gym.client._rollout import Rollout
from nemo_gym.failures import ConfigError

REWARD_COLUMN = "gym_rewards"


def for_trl(
    rollouts: Iterable[Rollout],
    count: int,
    tokenizer: Any,
    *,
    learns_grammar: bool = True,
    allow_tamperable: bool = False,
) -> dict[str, list[Any]]:
    """Return the columns of `rollout_func`, one entry per prompt, in order.

    If the token prefix of a rollout was rewritten, its first segment is trained on: TRL takes one sequence. Tokens
    sampled under a grammar (a forced tool call, a JSON schema) are marked in `grammar_mask`; they are masked, like the
    input, unless `learns_grammar`.

    Raises:
        ConfigError: no scored rollout has token ids, so nothing would be learned; or an answer ran beside its
            verifier and could have forged its reward, and `allow_tamperable` is false.
    """
    columns: dict[str, list[Any]] = {
        "prompt_ids": [[tokenizer.eos_token_id]] * count,
        "completion_ids": [[tokenizer.eos_token_id]] * count,
        "logprobs": [[0.0]] * count,
        "env_mask": [[0]] * count,
        "grammar_mask": [[0]] * count,
        REWARD_COLUMN: [None] * count,
    }
    scored = trained = 0
    for rollout in rollouts:
        if rollout.reward is None or rollout.is_masked:
            continue
        if rollout.is_tamperable and not allow_tamperable:
            raise ConfigError(
                f"the reward of task {rollout.task} is tamperable: its answer ran beside its tests",
                code="tamperable_rewards",
                remedy="Use tests that call the answer from outside, or pass allow_tamperable=True.",
            )
        scored += 1
        first = next(iter(rollout.segments), None)
        if first is not None and not learns_grammar:
            first = first.without_grammar()
        if first is None or not first.sampled:
            continue
        trained += 1
        start = first.loss_mask.index(1)
        columns["prompt_ids"][rollout.task] = first.token_ids[:start]
        columns["completion_ids"][rollout.task] = first.token_ids[start:]
        columns["logprobs"][rollout.task] = [logprob or 0.0 for logprob in first.logprobs[start:]]
        columns["env_mask"][rollout.task] = first.loss_mask[start:]
        columns["grammar_mask"][rollout.task] = first.grammar_mask[start:]
        columns[REWARD_COLUMN][rollout.task] = rollout.reward
    if scored and not trained:
        raise ConfigError(
            f"none of {scored} scored rollouts has token ids to train on",
            code="no_token_ids",
            remedy="Set return_token_id_information: true on the model server; _ng_tokens explains each masked call.",
        )
    return columns


def gym_reward(completions: Sequence[Any], **columns: Any) -> list[float | None]:
    """The reward function for `GRPOTrainer`: the verifiers' rewards, None for rollouts without training data."""
    rewards: list[float | None] = columns[REWARD_COLUMN]
    return rewards
