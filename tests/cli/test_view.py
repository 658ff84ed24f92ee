"""`ng_view` refuses places without a run before it listens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("place", ["absent.jsonl", "empty"])
def test_a_place_without_a_run_ends_with_exit_code_2(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-m", "nemo_gym.cli.view", f"+places=[{tmp_path / place}]"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert "there is no run" in ended.stderr
