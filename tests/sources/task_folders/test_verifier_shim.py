"""The program that runs `verifier.py`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.sources.task_folders import verifier_shim


@pytest.mark.parametrize(
    ("source", "rewards"),
    [
        ("def verify(): return 1", {"reward": 1}),
        ("async def verify(response): return response['n'] / 2", {"reward": 1.0}),
        (
            "def verify(workspace, state, task_data): return {'reward': 0.5, 'x': len(task_data)}",
            {"reward": 0.5, "x": 1},
        ),
    ],
)
def test_it_passes_what_is_named_and_writes_a_number_or_a_dict(
    source: str, rewards: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verifier_shim, "REWARD", str(tmp_path / "reward.json"))
    (tmp_path / ".ng").mkdir()
    (tmp_path / ".ng" / "given.json").write_text(json.dumps({"task_data": {"a": 1}, "response": {"n": 2}}))
    (tmp_path / "verifier.py").write_text(source)
    verifier_shim.run(tmp_path, tmp_path)
    assert json.loads((tmp_path / "reward.json").read_text()) == rewards
