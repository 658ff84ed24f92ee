"""Stored runs of several models with known abilities on the same tasks."""

from __future__ import annotations

import random
from pathlib import Path

import orjson

from tests.rollouts.stored_runs import scored_row, store


def store_models(
    folder: Path,
    abilities: dict[str, float],
    *,
    tasks: int = 40,
    repeats: int = 4,
    seed: int = 0,
    agent: str = "quiz",
) -> list[Path]:
    """Store a run for each model, whose rewards are 1 with the probability of its ability, and 0 otherwise."""
    rng = random.Random(seed)
    paths = []
    for model, ability in abilities.items():
        rows = [
            scored_row(task, repeat, float(rng.random() < ability), agent=agent)
            for task in range(tasks)
            for repeat in range(repeats)
        ]
        path = store(folder / f"{model}.jsonl", rows)
        config = {"policy_model": {"responses_api_models": {"vllm_model": {"model": f"org/{model}"}}}}
        manifest = {"schema_version": 1, "identity": {"config": config}, "starts": [{}]}
        (folder / f"{model}_run.json").write_bytes(orjson.dumps(manifest))
        paths.append(path)
    return paths
