"""GRPO with TRL: a policy learns the argument of a tool call from rollouts over HTTP. A few minutes on a CPU.

    make example-grpo
    .venvs/train/bin/python examples/grpo_trl.py --vllm .venvs/vllm/bin/vllm     # after tests/vllm/install.sh

This process is the trainer. It requests rollouts from the gym's head server. Agent, environment and model server have
their own processes, as in a run of any size. The engine is a copy of the model in this process, or a separate vLLM.
Before each step the engine gets the new weights and the model server gets their version. The model is tiny and starts
with random weights, so it is first trained on tool calls with arbitrary numbers. The right number is SECRET, which only
the rewards reveal.
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any, Protocol

import orjson
import torch
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from nemo_gym.cli import GlobalConfigDictParserConfig, RunHelper
from nemo_gym.client import Gym
from nemo_gym.client.trl import build_trl_columns, gym_reward
from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.testing.serving import LoopbackServers
from nemo_gym.testing.tiny_model import make_model, make_tokenizer
from nemo_gym.testing.transformers_engine import TransformersEngine

ENVIRONMENT = "example_session_state_mgmt"
CONFIGS = [
    f"resources_servers/{ENVIRONMENT}/configs/{ENVIRONMENT}.yaml",
    "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml",
]
SECRET, GUESSES = 2, (1, 2, 3)
PROMPTS = [f"Raise the counter {name}." for name in ("once", "for me", "again")]
GENERATIONS = 12
TOOL = {
    "type": "function",
    "name": "increment_counter",
    "description": "Raise the counter.",
    "parameters": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]},
    "strict": False,
}
ON_CPU = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
}


def task(prompt: str) -> dict[str, Any]:
    """A task row: the environment's counter begins at 10 and has to end at 10 + SECRET."""
    return {
        "responses_create_params": {
            "input": [{"role": "user", "content": prompt}],
            "tools": [TOOL],
            "max_output_tokens": 40,
        },
        "agent_ref": {"type": "responses_api_agents", "name": f"{ENVIRONMENT}_simple_agent"},
        "initial_count": 10,
        "expected_count": 10 + SECRET,
    }


def demonstration(number: int, prompt: str, guess: int) -> dict[str, Any]:
    """A scored row of a policy that calls the tool in the right form."""
    call = {"call_id": "call", "name": TOOL["name"], "arguments": f'{{"count": {guess}}}'}
    output = [
        {"type": "function_call", **call},
        {"type": "function_call_output", "call_id": "call", "output": '{"success":true}'},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]
    return {"_ng_task_index": number, **task(prompt), "response": {"output": output}, "reward": 0.0}


def learn_the_form(folder: Path, steps: int) -> tuple[Any, Any]:
    """A tiny model and its tokenizer, after SFT on an export of demonstrations with every guess."""
    cases = enumerate(product(PROMPTS, GUESSES))
    lines = [orjson.dumps(demonstration(number, *case)) for number, case in cases]
    demonstrations = folder / "demonstrations.jsonl"
    demonstrations.write_bytes(b"\n".join(lines) + b"\n")
    settings = ExportSettings(
        format="sft", inputs=[demonstrations], output=folder / "sft.jsonl", min_reward=0.0
    )
    export(settings)
    examples = (folder / "sft.jsonl").read_text().splitlines()
    tokenizer = make_tokenizer(examples)
    model = make_model(tokenizer)
    config = SFTConfig(
        output_dir=str(folder / "sft"),
        max_steps=steps,
        per_device_train_batch_size=len(examples),
        learning_rate=5e-3,
        assistant_only_loss=True,
        logging_steps=25,
        **ON_CPU,
    )
    dataset = Dataset.from_list([orjson.loads(example) for example in examples])
    SFTTrainer(model, config, train_dataset=dataset, processing_class=tokenizer).train()
    return model, tokenizer


class Engine(Protocol):
    """The engine that serves the policy."""

    url: str

    def update(self, model: Any, gym: Gym, version: int) -> None:
        """Answer with the weights of `model` from now on."""


class InProcess:
    """A copy of the model in this process."""

    def __init__(self, model: Any, tokenizer: Any, servers: LoopbackServers) -> None:
        self._engine = TransformersEngine(model, tokenizer)
        self.url = servers.serve(self._engine.app)

    def update(self, model: Any, gym: Gym, version: int) -> None:
        self._engine.load(model.state_dict())
        gym.update_policy(version)


class Vllm:
    """A vLLM that serves the model from a folder, and reads the folder again on request."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self.url = url

    def update(self, model: Any, gym: Gym, version: int) -> None:
        model.save_pretrained(self._folder)
        gym.update_policy(version, reload_weights=True)


@contextmanager
def running_vllm(command: str, model: Any, tokenizer: Any, folder: Path) -> Iterator[Vllm]:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    options = ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", "policy"]
    options += ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
    options += ["--enable-scale-out"]  # token ids in and out, so that no conversation drifts
    options += ["--dtype", "float32", "--enforce-eager", "--max-num-seqs", "64"]  # for a CPU
    environment = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    log = folder.with_name("vllm.log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [command, "serve", str(folder), *options],
            stdout=output,
            stderr=output,
            env=os.environ | environment,
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield Vllm(folder, f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait()


def wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    print("vLLM is starting, which takes about half a minute", flush=True)
    while process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise RuntimeError(f"vLLM ended with {process.returncode}:\n{log.read_text()[-3000:]}")


@contextmanager
def running_engine(vllm: str | None, model: Any, tokenizer: Any, folder: Path) -> Iterator[Engine]:
    if vllm is not None:
        with running_vllm(vllm, model, tokenizer, folder / "policy") as engine:
            yield engine
    else:
        with LoopbackServers() as servers:
            yield InProcess(model, tokenizer, servers)


def start_gym(engine_url: str) -> RunHelper:
    """The gym's servers, each in a process of its own."""
    config = {
        "config_paths": CONFIGS,
        "policy_base_url": f"{engine_url}/v1",
        "policy_api_key": "none",
        "policy_model_name": "policy",
        "head_server": {"port": 0},
    }
    helper = RunHelper()
    helper.start(GlobalConfigDictParserConfig(initial_global_config_dict=config, skip_load_from_cli=True))
    return helper


def learn_by_rewards(
    model: Any, tokenizer: Any, engine: Engine, gym: Gym, folder: Path, steps: int
) -> list[float]:
    """The mean reward of each step."""
    rewards: list[float] = []

    def rollout_func(prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        version = trainer.state.global_step
        engine.update(trainer.accelerator.unwrap_model(trainer.model), gym, version)
        rows = [task(prompt[0]["content"]) for prompt in prompts]
        rollouts = list(gym.rollouts(rows))
        rewards.append(mean(each.reward for each in rollouts if each.reward is not None))
        print(f"step {version + 1}: mean reward {rewards[-1]:.2f}", flush=True)
        return build_trl_columns(rollouts, len(rows), tokenizer)

    config = GRPOConfig(
        output_dir=str(folder / "grpo"),
        max_steps=steps,
        per_device_train_batch_size=len(PROMPTS) * GENERATIONS,
        num_generations=GENERATIONS,
        max_completion_length=200,
        learning_rate=1e-3,
        lr_scheduler_type="constant",
        **ON_CPU,
    )
    prompts = [{"prompt": [{"role": "user", "content": prompt}]} for prompt in PROMPTS]
    trainer = GRPOTrainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_list(prompts * steps),
        processing_class=tokenizer,
        reward_funcs=gym_reward,
        rollout_func=rollout_func,
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return rewards


def main(sft_steps: int = 80, grpo_steps: int = 30, vllm: str | None = None) -> list[float]:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    torch.manual_seed(0)
    torch.set_num_threads(1)  # a second thread would not speed up a model this small
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, tokenizer = learn_the_form(folder, sft_steps)
        with running_engine(vllm, model, tokenizer, folder) as engine:
            helper = start_gym(engine.url)
            try:
                gym = Gym.connect(url=helper.head_url)
                rewards = learn_by_rewards(model, tokenizer, engine, gym, folder, grpo_steps)
            finally:
                helper.shutdown()
    few = max(1, len(rewards) // 5)
    print(
        f"mean reward: {mean(rewards[:few]):.2f} in the first {few} steps, {mean(rewards[-few:]):.2f} in the last"
    )
    return rewards


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="GRPO with TRL on rollouts of a gym.")
    parser.add_argument(
        "--vllm", help="the `vllm` command to serve the policy with; in this process unless given"
    )
    parser.add_argument("--steps", type=int, default=30, help="how many steps GRPO takes")
    given = parser.parse_args()
    main(grpo_steps=given.steps, vllm=given.vllm)
