"""TRL's own trainers take steps on the exports, and see in them what was exported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_gym.export.exporting import ExportSettings, export
from tests.export.rows import SHARED, fork_rows, read_own, write
from tests.train.rollouts import tool_rows

ON_CPU: dict[str, Any] = {
    "max_steps": 3,
    "per_device_train_batch_size": 4,
    "learning_rate": 1e-3,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "report_to": "none",
    "save_strategy": "no",
    "logging_steps": 1,
    "disable_tqdm": True,
}


def exported(tmp_path: Path, format: str, rows: list[dict[str, Any]], **options: Any) -> Any:
    """The dataset that `load_dataset` makes of an export."""
    from datasets import load_dataset

    given = write(tmp_path / "rollouts.jsonl", rows)
    path = tmp_path / f"{format}.jsonl"
    export(ExportSettings(format=format, inputs=[given], output=path, options=options, overwrite=True))
    return load_dataset("json", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))


def model_of(dataset: Any) -> tuple[Any, Any]:
    from nemo_gym.testing.tiny_model import make_model, make_tokenizer

    tokenizer = make_tokenizer([str(each) for each in dataset])
    return make_model(tokenizer), tokenizer


def steps(trainer: Any) -> list[float]:
    """The loss of every step; weights have moved."""
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.train()
    assert any(not before[name].equal(value) for name, value in trainer.model.state_dict().items())
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert len(losses) == ON_CPU["max_steps"]
    return [float(loss) for loss in losses]


def test_sft_on_messages_with_tools(tmp_path: Path) -> None:
    from trl import SFTConfig, SFTTrainer

    dataset = exported(tmp_path, "sft", tool_rows())
    calls = [
        call["function"]["arguments"]
        for each in dataset
        for message in each["messages"]
        for call in message.get("tool_calls") or ()
    ]
    assert {frozenset(each) for each in calls} == {frozenset({"city"}), frozenset({"zone"})}, "no nulls"
    model, tokenizer = model_of(dataset)
    config = SFTConfig(str(tmp_path / "out"), assistant_only_loss=True, **ON_CPU)
    losses = steps(SFTTrainer(model, config, train_dataset=dataset, processing_class=tokenizer))
    assert losses[-1] < losses[0]


def test_sft_on_token_ids_trains_on_what_was_sampled_alone(tmp_path: Path) -> None:
    from trl import SFTConfig, SFTTrainer

    ids = {
        "prompt_token_ids": [5, 6, 7],
        "generation_token_ids": [8, 9],
        "generation_log_probs": [-1.0, -1.0],
    }
    rows = tool_rows(4)
    for number, each in enumerate(rows):
        each["response"]["output"][-1].update(ids, prompt_token_ids=[5, 6, 10 + number])
    dataset = exported(tmp_path, "sft", rows, form="tokens")
    model, tokenizer = model_of(dataset)
    config = SFTConfig(str(tmp_path / "out"), **ON_CPU)
    trainer = SFTTrainer(model, config, train_dataset=dataset, processing_class=tokenizer)
    batch = next(iter(trainer.get_train_dataloader()))
    assert batch["labels"].tolist() == [[-100, -100, -100, 8, 9]] * 4
    steps(trainer)


def test_dpo_with_tool_turns(tmp_path: Path) -> None:
    from trl import DPOConfig, DPOTrainer

    dataset = exported(tmp_path, "dpo", tool_rows())
    assert len(dataset) == 7, "the answers of one task are equal"
    model, tokenizer = model_of(dataset)
    config = DPOConfig(str(tmp_path / "out"), **ON_CPU)
    reference, _ = model_of(dataset)
    trainer = DPOTrainer(
        model=model, ref_model=reference, args=config, train_dataset=dataset, processing_class=tokenizer
    )
    assert abs(steps(trainer)[0] - 0.6931) < 1e-3, "the policy begins as its own reference"


def test_a_group_of_forks_is_learnt_from_its_own_turns(tmp_path: Path) -> None:
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    forks = fork_rows()
    pairs = exported(tmp_path, "dpo", forks)
    assert len(pairs) == 4
    assert all(sum(message["role"] == "assistant" for message in each["prompt"]) == SHARED for each in pairs)
    model, tokenizer = model_of(pairs)
    reference, _ = model_of(pairs)
    config = DPOConfig(str(tmp_path / "dpo"), **ON_CPU)
    trainer = DPOTrainer(
        model=model, ref_model=reference, args=config, train_dataset=pairs, processing_class=tokenizer
    )
    assert abs(steps(trainer)[0] - 0.6931) < 1e-3
    dataset = exported(tmp_path, "sft", forks, form="tokens")
    learnt = sorted([label for label in each["labels"] if label != -100] for each in dataset)
    assert learnt == sorted(map(read_own, forks[1::2])), "the right forks; the shared calls are context"
    config = SFTConfig(str(tmp_path / "sft"), **ON_CPU)
    trainer = SFTTrainer(model, config, train_dataset=dataset, processing_class=tokenizer)
    seen = trainer.train_dataset["labels"]
    assert sorted([label for label in each if label != -100] for each in seen) == learnt


def test_kto(tmp_path: Path) -> None:
    from trl import KTOConfig, KTOTrainer

    dataset = exported(tmp_path, "kto", tool_rows())
    assert sorted(set(dataset["label"])) == [False, True]
    model, tokenizer = model_of(dataset)
    config = KTOConfig(str(tmp_path / "out"), **ON_CPU)
    reference, _ = model_of(dataset)
    steps(
        KTOTrainer(
            model=model, ref_model=reference, args=config, train_dataset=dataset, processing_class=tokenizer
        )
    )
