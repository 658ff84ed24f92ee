"""Other trainers' own loaders read what is exported for them. Each runs with the versions that it asks for."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.export.exporting import ExportSettings, export
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.segments import build_segments
from tests.export.rows import token_rows, write
from tests.train.policy_gym import policy_gym, task
from tests.train.rollouts import tool_rows

HERE = Path(__file__).parent
VENV = Path(sys.prefix)


def loaded_by(package: str, *arguments: Path | str, way: str = "load") -> Any:
    """Return the output of a package's script."""
    if not (VENV / package).is_dir():
        pytest.skip(f"{package} is not installed: make test-train")
    search = os.pathsep.join((str(VENV / package), str(PARENT_DIR)))
    done = subprocess.run(
        [sys.executable, HERE / f"{way}_{package}.py", *arguments],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_verl_reads_answers_and_tasks(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", [each for each in tool_rows() if each["_ng_task_index"] % 2])
    answers, tasks = tmp_path / "sft.parquet", tmp_path / "rl.parquet"
    export(ExportSettings(format="verl", inputs=[rows], output=answers, min_reward=0.0))
    export(ExportSettings(format="verl", inputs=[rows], output=tasks, options={"form": "rl"}))
    read = loaded_by("verl", answers, tasks)
    assert len(read["learnt"]) == 8
    assert all(
        '<tool_call>\n{"name": "get_time", "arguments": {"zone": "Oslo' in each for each in read["learnt"]
    )
    assert not any("result" in each for each in read["learnt"]), "outputs of tools are not learnt"
    assert [prompt[-1]["content"] for prompt in read["prompts"]] == [f"Question {n}?" for n in (1, 3, 5, 7)]


def test_verls_agent_loop_takes_its_rollouts_from_a_gym() -> None:
    from nemo_gym.testing.tiny_model import make_model, make_tokenizer
    from nemo_gym.testing.transformers_engine import TransformersEngine

    tokenizer = make_tokenizer()
    with policy_gym(TransformersEngine(make_model(tokenizer), tokenizer).app) as gym:
        gym.update_policy(7)
        address = gym.address
        told = loaded_by("verl", address.url, str(address.token), json.dumps(task("Say it.")), way="loop")
    assert 0 < len(told["response_ids"]) <= 12, "it is cut at verl's response_length"
    assert len(told["response_ids"]) == len(told["response_mask"]) == len(told["response_logprobs"])
    assert set(told["response_mask"]) <= {0, 1}
    assert told["response_mask"][0] == 1
    assert "Say it." in tokenizer.decode(told["prompt_ids"])
    assert told["reward_score"] >= 0
    assert (told["extra_fields"]["min_global_steps"], told["extra_fields"]["max_global_steps"]) == (7, 7)
    assert "build_verl_row" in told["error"]


def test_verifiers_reads_episodes_as_the_segments_that_they_are(tmp_path: Path) -> None:
    rows = asyncio.run(token_rows(3, 2, "odd", odd_share=0.4))
    given = write(tmp_path / "rows.jsonl", rows)
    export(
        ExportSettings(
            format="prime_rl", inputs=[given], output=tmp_path / "traces.jsonl", options={"form": "traces"}
        )
    )
    read = loaded_by("verifiers", tmp_path)
    assert [each["reward"] for each in read] == [row["reward"] for row in rows]
    for each, row in zip(read, rows, strict=True):
        segments = build_segments(read_calls(row))
        assert [branch["token_ids"] for branch in each["branches"]] == [s.token_ids for s in segments]
        assert [branch["mask"] for branch in each["branches"]] == [
            [bool(bit) for bit in s.loss_mask] for s in segments
        ]
        assert [branch["logprobs"] for branch in each["branches"]] == [
            [logprob or 0.0 for logprob in s.logprobs] for s in segments
        ]
