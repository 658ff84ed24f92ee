"""SFT, DPO and KTO with TRL on the exports of one collection. A minute on a CPU.

    make example-offline

A scripted policy answers questions, sometimes wrongly, and calls tools. Its rollouts are exported in the formats of the
three trainers, and a tiny model takes a few steps on each export.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import orjson
import torch
from datasets import Dataset
from trl import DPOConfig, DPOTrainer, KTOConfig, KTOTrainer, SFTConfig, SFTTrainer

from nemo_gym import PARENT_DIR
from nemo_gym.cli import GlobalConfigDictParserConfig, RunHelper
from nemo_gym.client import Gym
from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.testing.tiny_model import make_model, make_tokenizer

QUESTIONS = "resources_servers/mcqa/data/example.jsonl"
TOOL_TASKS = "resources_servers/example_single_tool_call/data/example.jsonl"
CONFIG = {
    "config_paths": [
        "resources_servers/mcqa/configs/mcqa.yaml",
        "resources_servers/example_single_tool_call/configs/example_single_tool_call.yaml",
    ],
    # Calls every tool of a task once, and answers two questions of three rightly.
    "policy_model": {
        "responses_api_models": {
            "scripted_model": {
                "entrypoint": "app.py",
                "engine": {"policy": "answer", "answers": QUESTIONS, "accuracy": 0.67},
            }
        }
    },
    "tools_model": {
        "responses_api_models": {"scripted_model": {"entrypoint": "app.py", "engine": {"policy": "tools"}}}
    },
    "example_single_tool_call_simple_agent": {
        "responses_api_agents": {"simple_agent": {"model_server": {"name": "tools_model"}}}
    },
    "head_server": {"port": 0},
}
ON_CPU = {
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "disable_tqdm": True,
    "logging_steps": 1,
    "per_device_train_batch_size": 4,
    "learning_rate": 1e-3,
}


def rows_of(path: str, agent: str) -> list[dict[str, Any]]:
    lines = (PARENT_DIR / path).read_bytes().splitlines()
    reference = {"type": "responses_api_agents", "name": agent}
    return [{**orjson.loads(line), "agent_ref": reference} for line in lines]


def collect(output: Path) -> None:
    """Six rollouts of every task, as scored rows."""
    helper = RunHelper()
    helper.start(GlobalConfigDictParserConfig(initial_global_config_dict=CONFIG, skip_load_from_cli=True))
    try:
        gym = Gym.connect(url=helper.head_url)
        rows = rows_of(QUESTIONS, "mcqa_simple_agent")
        rows += rows_of(TOOL_TASKS, "example_single_tool_call_simple_agent")
        rollouts = gym.rollouts(rows, num_repeats=6, num_repeats_add_seed=True)
        output.write_bytes(b"".join(orjson.dumps(rollout.row) + b"\n" for rollout in rollouts))
    finally:
        helper.shutdown()


def exported(format: str, rollouts: Path, **filters: Any) -> Dataset:
    output = rollouts.with_name(f"{format}.jsonl")
    report = export(ExportSettings(format=format, inputs=[rollouts], output=output, **filters))
    print(f"--- {format}", *report.lines(), sep="\n", flush=True)
    return Dataset.from_list([orjson.loads(line) for line in output.read_bytes().splitlines()])


def main(steps: int = 5) -> dict[str, float]:
    """The last loss of each trainer."""
    torch.set_num_threads(1)  # a second thread would not speed up models this small
    losses = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rollouts = folder / "rollouts.jsonl"
        collect(rollouts)
        tokenizer = make_tokenizer(rollouts.read_text().splitlines())
        trainers: dict[str, tuple[Any, Any, Dataset]] = {
            "sft": (
                SFTTrainer,
                SFTConfig(str(folder / "sft"), max_steps=steps, assistant_only_loss=True, **ON_CPU),
                exported("sft", rollouts, min_reward=1.0),
            ),
            "dpo": (
                DPOTrainer,
                DPOConfig(str(folder / "dpo"), max_steps=steps, **ON_CPU),
                exported("dpo", rollouts, options={"pairs": "length_matched"}),
            ),
            "kto": (
                KTOTrainer,
                KTOConfig(str(folder / "kto"), max_steps=steps, **ON_CPU),
                exported("kto", rollouts),
            ),
        }
        for format, (trainer_class, config, dataset) in trainers.items():
            reference = {} if format == "sft" else {"ref_model": make_model(tokenizer)}
            trainer = trainer_class(
                model=make_model(tokenizer),
                args=config,
                train_dataset=dataset,
                processing_class=tokenizer,
                **reference,
            )
            trainer.train()
            losses[format] = next(e["loss"] for e in reversed(trainer.state.log_history) if "loss" in e)
    print(", ".join(f"{format}: loss {loss:.3f}" for format, loss in losses.items()))
    return losses


if __name__ == "__main__":
    main()
