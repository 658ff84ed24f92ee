"""The examples run to their end, with fewer steps."""

from __future__ import annotations

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
    rewards = example("grpo_trl.py")["main"](sft_steps=60, grpo_steps=3)
    assert len(rewards) == 3
    assert all(0 <= reward <= 1 for reward in rewards)
    assert sum(rewards) > 0, "the policy has learnt to call the tool"


def test_trainers_on_exports() -> None:
    losses = example("offline_trl.py")["main"](steps=2)
    assert losses.keys() == {"sft", "dpo", "kto"}
