"""Rollouts in the form of a `rollout_func` of TRL's `GRPOTrainer`.

    def rollout_func(prompts, trainer):
        rows = [task_of[prompt] for prompt in prompts]      # TRL has repeated the prompts already
        return build_trl_columns(gym.rollouts(rows), len(rows), trainer.processing_class)

    GRPOTrainer(..., rollout_func=rollout_func, reward_funcs=gym_reward)

Sampled tokens are trained on; tool outputs and all other input are masked. Failed and masked rollouts have no reward:
TRL excludes them from the group's baseline and from training.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from nemo_gym.client._rollout import Rollout
from nemo_gym.failures import ConfigError
from nemo_gym.tokens.segments import Segment

__all__ = ["build_trl_columns", "gym_reward"]

REWARD_COLUMN = "gym_rewards"


def build_trl_columns(
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

    Raises `ConfigError` if no scored rollout has token ids, or if an answer ran beside its verifier, so that its reward
    may be forged, and `allow_tamperable` is false.
    """
    columns = {name: [value] * count for name, value in _nothing(tokenizer).items()}
    scored = trained = 0
    for rollout in rollouts:
        if rollout.reward is None or rollout.is_masked:
            continue
        if rollout.is_tamperable and not allow_tamperable:
            raise build_tamperable_error(rollout)
        scored += 1
        first = next(iter(rollout.segments), None)
        if first is not None and not learns_grammar:
            first = first.mask_grammar()
        if first is not None and first.sampled:
            trained += 1
            for name, value in (_build_columns(first) | {REWARD_COLUMN: rollout.reward}).items():
                columns[name][rollout.task] = value
    if scored and not trained:
        raise ConfigError(
            f"none of {scored} scored rollouts has token ids to train on",
            code="no_token_ids",
            remedy="Set return_token_id_information: true on the model server; _ng_tokens explains each masked call.",
        )
    return columns


def _nothing(tokenizer: Any) -> dict[str, Any]:
    """Return the columns of a prompt without training data."""
    end = [tokenizer.eos_token_id]
    tokens = {
        "prompt_ids": end,
        "completion_ids": end,
        "logprobs": [0.0],
        "env_mask": [0],
        "grammar_mask": [0],
    }
    return {**tokens, REWARD_COLUMN: None}


def _build_columns(segment: Segment) -> dict[str, Any]:
    start = segment.loss_mask.index(1)
    return {
        "prompt_ids": segment.token_ids[:start],
        "completion_ids": segment.token_ids[start:],
        "logprobs": [logprob or 0.0 for logprob in segment.logprobs[start:]],
        "env_mask": segment.loss_mask[start:],
        "grammar_mask": segment.grammar_mask[start:],
    }


def build_tamperable_error(rollout: Rollout) -> ConfigError:
    """Return the error for a reward that the rollout's answer could have forged."""
    return ConfigError(
        f"the reward of task {rollout.task} is tamperable: its answer ran beside its tests",
        code="tamperable_rewards",
        remedy="Use tests that call the answer from outside, or pass allow_tamperable=True.",
    )


def gym_reward(completions: Sequence[Any], **columns: Any) -> list[float | None]:
    """The reward function for `GRPOTrainer`: the verifiers' rewards, None for rollouts without training data."""
    rewards: list[float | None] = columns[REWARD_COLUMN]
    return rewards
