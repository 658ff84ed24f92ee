"""Asynchronous GRPO with TRL: the task of examples/grpo_trl.py, through a rollout session. A few minutes on a CPU.

    make example-async

The trainer takes groups while the gym makes the next ones. After each step the engine gets the new weights in the
middle of whatever it answers, and the model server and the session get their version. A group that is too old for the
trainer is never delivered. TRL's AsyncGRPOTrainer is made for GPUs, so two of its parts have stand-ins on a CPU: the
attention kernel, and the peak FLOPS of the device.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from types import SimpleNamespace
from typing import Any

import torch
from datasets import Dataset
from grpo_trl import ON_CPU, PROMPTS, learn_the_form, start_gym, task  # type: ignore[import-not-found]  # beside this file
from transformers import PrinterCallback, TrainerCallback
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer, async_grpo_trainer, packing

from nemo_gym.client import Gym
from nemo_gym.client.trl_async import GymRolloutWorker
from nemo_gym.testing.serving import LoopbackServers
from nemo_gym.testing.transformers_engine import TransformersEngine

GENERATIONS = 12
MAX_STALENESS = 4


class InProcessWeights:
    """TRL's interface of weight transfer, to an engine in this process."""

    def __init__(self, engine: TransformersEngine) -> None:
        self._engine = engine

    def init_weight_transfer(self) -> None: ...

    def pause(self) -> None: ...

    def send_weights(self, iterator: Iterator[tuple[str, torch.Tensor]]) -> None:
        self._engine.load({name: weight.detach().clone() for name, weight in iterator})

    def resume(self) -> None: ...

    def destroy(self) -> None: ...


class RewardLog(TrainerCallback):  # type: ignore[misc]  # transformers has no types
    """Keeps the mean reward of the rows of each step."""

    def __init__(self) -> None:
        self.rewards: list[float] = []

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        reward = next((logs[name] for name in logs or () if name.endswith("reward")), None)
        if reward is not None:
            self.rewards.append(reward)
            print(f"step {state.global_step}: mean reward {reward:.2f}", flush=True)


def stand_in_for_gpu_parts() -> None:
    packing._flash_attn = lambda: SimpleNamespace(flash_attn_varlen_func=attend)
    async_grpo_trainer.get_peak_flops_per_device = lambda *_: None


def attend(
    query: Any,
    key: Any,
    value: Any,
    query_ends: Any,
    key_ends: Any,
    *_: Any,
    softmax_scale: Any = None,
    **__: Any,
) -> Any:
    """Causal attention of packed sequences, in plain torch. Shapes: tokens x heads x size."""
    groups = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(groups, dim=1) for each in (key, value))
    answers = []
    for number in range(len(query_ends) - 1):
        asked = query[query_ends[number] : query_ends[number + 1]]
        span = slice(key_ends[number], key_ends[number + 1])
        read, given = key[span], value[span]
        scale = softmax_scale or asked.shape[-1] ** -0.5
        scores = torch.einsum("qhd,khd->hqk", asked, read) * scale
        later = torch.ones(len(asked), len(read), dtype=torch.bool).triu(len(read) - len(asked) + 1)
        weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
        answers.append(torch.einsum("hqk,khd->qhd", weights, given))
    return torch.cat(answers)


def train(folder: Path, tokenizer: Any, engine: TransformersEngine, gym: Gym, steps: int) -> list[float]:
    """The mean reward of each step."""
    worker = GymRolloutWorker(
        gym,
        [task(prompt) for prompt in PROMPTS],
        max_staleness=MAX_STALENESS,
        group_size=GENERATIONS,
        groups_per_step=len(PROMPTS),
        num_samples_in_parallel=len(PROMPTS) * GENERATIONS,
    )
    config = AsyncGRPOConfig(
        str(folder / "grpo"),
        max_steps=steps,
        per_device_train_batch_size=len(PROMPTS) * GENERATIONS,
        gradient_accumulation_steps=1,
        num_generations=GENERATIONS,
        max_staleness=MAX_STALENESS,
        token_budget=-1,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        logging_steps=1,
        **ON_CPU,
    )
    log = RewardLog()
    trainer = AsyncGRPOTrainer(
        model=str(folder / "policy"),
        reward_funcs=[],
        args=config,
        train_dataset=Dataset.from_list(
            [{"prompt": prompt} for prompt in PROMPTS]
        ),  # the worker has the tasks
        processing_class=tokenizer,
        rollout_worker=worker,
        weight_transfer=InProcessWeights(engine),
        callbacks=[log],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return log.rewards


def main(sft_steps: int = 80, grpo_steps: int = 30) -> list[float]:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    stand_in_for_gpu_parts()
    with tempfile.TemporaryDirectory() as name, LoopbackServers() as servers:
        folder = Path(name)
        model, tokenizer = learn_the_form(folder, sft_steps)
        model.save_pretrained(folder / "policy")
        tokenizer.save_pretrained(folder / "policy")
        engine = TransformersEngine(model, tokenizer)
        helper = start_gym(servers.serve(engine.app))
        try:
            rewards = train(folder, tokenizer, engine, Gym.connect(url=helper.head_url), grpo_steps)
        finally:
            helper.shutdown()
    few = max(1, len(rewards) // 5)
    print(
        f"mean reward: {mean(rewards[:few]):.2f} in the first {few} steps, {mean(rewards[-few:]):.2f} in the last"
    )
    return rewards


if __name__ == "__main__":
    main()
