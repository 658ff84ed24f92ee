"""TRL's AsyncGRPOTrainer takes steps on a session's groups, while processes of the gym and the trainer are killed."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.client import Gym
from nemo_gym.client.trl_async import GymRolloutWorker, RowQueue
from nemo_gym.testing.serving import LoopbackServers

GROUP, PROMPTS = 4, 3


class Trained(NamedTuple):
    worker: GymRolloutWorker
    steps: int
    logged: list[dict[str, float]]


class Training:
    """A tiny policy with random weights, its engine, and a gym in processes of its own."""

    def __init__(self, folder: Path, servers: LoopbackServers, example: dict[str, Any]) -> None:
        from nemo_gym.testing.tiny_model import make_model, make_tokenizer
        from nemo_gym.testing.transformers_engine import TransformersEngine

        self.folder = folder
        self.example = example
        self.tokenizer = make_tokenizer()
        model = make_model(self.tokenizer)
        model.save_pretrained(folder / "policy")
        self.tokenizer.save_pretrained(folder / "policy")
        self.engine = TransformersEngine(model, self.tokenizer)
        self.helper = example["start_gym"](servers.serve(self.engine.app))

    def kill(self, server: str) -> None:
        """Kill a server's process; the supervisor of the gym starts another one."""
        (process,) = (each for each in psutil.Process().children(recursive=True) if each.name() == server)
        process.kill()

    def build_worker(self, *, state: Any = None, max_staleness: int = 4) -> GymRolloutWorker:
        rows = [self.example["task"](prompt) for prompt in self.example["PROMPTS"][:PROMPTS]]
        return GymRolloutWorker(
            Gym.connect(url=self.helper.head_url),
            rows,
            max_staleness=max_staleness,
            state=state,
            group_size=GROUP,
            groups_per_step=PROMPTS,
            num_samples_in_parallel=PROMPTS * GROUP,
            responses_create_params={"max_output_tokens": 16},
        )

    def train(
        self, worker: GymRolloutWorker, steps: int, on_step: Any = None, *, max_staleness: int = 4
    ) -> Trained:
        from datasets import Dataset
        from transformers import PrinterCallback, TrainerCallback
        from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

        class Steps(TrainerCallback):  # type: ignore[misc]  # transformers has no types
            def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                if on_step is not None:
                    on_step(state.global_step)

        config = AsyncGRPOConfig(
            str(self.folder / "grpo"),
            max_steps=steps,
            per_device_train_batch_size=PROMPTS * GROUP,
            gradient_accumulation_steps=1,
            num_generations=GROUP,
            max_staleness=max_staleness,
            token_budget=-1,
            logging_steps=1,
            **self.example["ON_CPU"],
        )
        trainer = AsyncGRPOTrainer(
            model=str(self.folder / "policy"),
            reward_funcs=[],
            args=config,
            train_dataset=Dataset.from_list([{"prompt": "?"}] * PROMPTS),
            processing_class=self.tokenizer,
            rollout_worker=worker,
            weight_transfer=self.example["InProcessWeights"](self.engine),
            callbacks=[Steps()],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        return Trained(worker, trainer.state.global_step, trainer.state.log_history)


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Training]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(PARENT_DIR / "examples")
    example = runpy.run_path(str(PARENT_DIR / "examples" / "async_grpo_trl.py"))
    example["stand_in_for_gpu_parts"]()
    with LoopbackServers() as servers:
        training = Training(tmp_path, servers, example)
        try:
            yield training
        finally:
            training.helper.shutdown()


@pytest.mark.parametrize("server", ["head_server", "policy_model"])
def test_training_goes_on_when_a_process_of_the_gym_is_killed(training: Training, server: str) -> None:
    def kill(step: int) -> None:
        if step in (2, 4):
            training.kill(server)

    assert training.train(training.build_worker(), 7, kill).steps == 7


class Rows(RowQueue):
    """Notes the groups whose rows the trainer takes."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.groups: Counter[int] = Counter()

    def _get(self) -> Any:
        row = super()._get()
        self.groups[row.group_id] += 1
        return row


def test_a_killed_trainer_goes_on_from_its_checkpoint_and_takes_no_group_twice(training: Training) -> None:
    class KilledError(Exception):
        pass

    first, seen = training.build_worker(), Rows(64)
    first.rollout_buffer = seen
    states: list[Any] = []

    def checkpoint(step: int) -> None:
        if step == 3:
            states.append((first.state(), Counter(seen.groups)))
            raise KilledError

    with pytest.raises(KilledError):
        training.train(first, 9, checkpoint)
    first.stop()
    ((state, before),) = states
    second, seen = training.build_worker(state=state), Rows(64)
    second.rollout_buffer = seen
    assert training.train(second, 3).steps == 3
    finished = {group for group, count in before.items() if count == GROUP}
    assert finished
    assert not finished & set(seen.groups), "a group whose rows were all taken does not come again"
    assert max(Counter(seen.groups).values()) <= GROUP


def test_rows_above_the_bound_of_the_trainer_are_dropped_and_it_goes_on(training: Training) -> None:
    trained = training.train(training.build_worker(max_staleness=4), 4, max_staleness=0)
    assert trained.steps == 4
    dropped = [each[name] for each in trained.logged for name in each if name.endswith("dropped_stale_total")]
    assert sum(dropped) > 0
