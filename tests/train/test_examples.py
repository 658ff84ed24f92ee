"""The examples run to their end, with fewer steps."""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(PARENT_DIR / "examples" / name))


def test_grpo_by_rollouts_over_http() -> None:
    check_rewards(example("grpo_trl.py")["main"](grpo_steps=3))


def test_asynchronous_grpo_through_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PARENT_DIR / "examples")
    check_rewards(example("async_grpo_trl.py")["main"](grpo_steps=3))


@pytest.mark.skipif("NEMO_GYM_TEST_VLLM" not in os.environ, reason="needs tests/vllm/install.sh")
def test_grpo_with_a_vllm_that_reads_new_weights_between_steps() -> None:
    vllm = PARENT_DIR / ".venvs" / "vllm" / "bin" / "vllm"
    check_rewards(example("grpo_trl.py")["main"](grpo_steps=3, vllm=str(vllm)))


def check_rewards(rewards: list[float]) -> None:
    assert len(rewards) == 3
    assert all(0 <= reward <= 1 for reward in rewards)
    assert sum(rewards) > 0, "the policy has learnt to call the tool"


def test_trainers_on_exports() -> None:
    losses = example("offline_trl.py")["main"](steps=2)
    assert losses.keys() == {"sft", "dpo", "kto"}
