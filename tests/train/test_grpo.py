"""TRL's GRPOTrainer takes steps on rollouts of a gym, and the gym rolls out what it has learnt."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

from nemo_gym.client import Rollout
from nemo_gym.client.trl import build_trl_columns, gym_reward
from nemo_gym.rows.calls import read_calls
from tests.train.policy_gym import UNSCORABLE, policy_gym, task
from tests.train.test_exports import ON_CPU
from tests.train.test_tokens import TOLERANCE, largest_difference

STEPS = 2
QUESTIONS = ("Say something.", "And now?")
GENERATIONS = 4


def tasks_of(prompts: list[Any]) -> list[dict[str, Any]]:
    """One rollout of every group fails."""
    words = [prompt[0]["content"] for prompt in prompts]
    return [
        task(UNSCORABLE if number % GENERATIONS == 1 else asked, after_a_tool_call=number % GENERATIONS == 2)
        for number, asked in enumerate(words)
    ]


def test_steps_on_rollouts_with_the_weights_pushed_back(tmp_path: Path) -> None:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from nemo_gym.testing.tiny_model import make_model, make_tokenizer
    from nemo_gym.testing.transformers_engine import TransformersEngine

    tokenizer = make_tokenizer()
    model = make_model(tokenizer)
    engine = TransformersEngine(model, tokenizer)
    steps: list[tuple[Any, list[Rollout]]] = []

    with policy_gym(engine.app) as gym:

        def rollout_func(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
            engine.load(trainer.model.state_dict())
            gym.update_policy(trainer.state.global_step)
            rollouts = list(gym.rollouts(tasks_of(prompts), max_attempts=1))
            policy = make_model(tokenizer)
            policy.load_state_dict(trainer.model.state_dict())
            steps.append((policy, rollouts))
            return build_trl_columns(rollouts, len(prompts), tokenizer)

        batch = len(QUESTIONS) * GENERATIONS
        settings = {**ON_CPU, "max_steps": STEPS, "per_device_train_batch_size": batch}
        asked = [{"prompt": [{"role": "user", "content": words}]} for words in QUESTIONS]
        trainer = GRPOTrainer(
            model=model,
            args=GRPOConfig(str(tmp_path / "out"), num_generations=GENERATIONS, **settings),
            train_dataset=Dataset.from_list(asked * STEPS),
            processing_class=tokenizer,
            reward_funcs=gym_reward,
            rollout_func=rollout_func,
        )
        trainer.train()

    logged = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    assert len(steps) == len(logged) == STEPS
    for number, (policy, rollouts) in enumerate(steps):
        scored = [rollout for rollout in rollouts if rollout.reward is not None]
        assert len(scored) == len(rollouts) - len(QUESTIONS), "one of every group failed"
        rewards = [rollout.reward for rollout in scored if rollout.reward is not None]
        assert abs(logged[number] - mean(rewards)) < 1e-4, "failures are in no mean"
        assert policy_versions(scored) == {number}
        assert largest_difference(policy, segments(scored)) < TOLERANCE
    assert_has_weights_of_its_own(TransformersEngine(trainer.model, tokenizer), trainer.model)
    before, rollouts = steps[0][0], steps[1][1]
    assert largest_difference(before, segments(rollouts)) > TOLERANCE, "the policy moved, and the gym with it"


def segments(rollouts: list[Rollout]) -> list[Any]:
    return [(segment.token_ids, segment.logprobs) for each in rollouts for segment in each.segments]


def policy_versions(rollouts: list[Rollout]) -> set[Any]:
    return {call.policy_version for each in rollouts for call in read_calls(each.row)}


def assert_has_weights_of_its_own(engine: Any, trained: Any) -> None:
    """Trainers patch models, and a patched model's copy may compute with the weights of the original."""
    import torch

    ids = torch.tensor([[5, 6, 7]])
    with torch.no_grad():
        before = engine.model(ids).logits
        for weights in trained.parameters():
            weights.zero_()
        assert engine.model(ids).logits.equal(before)
