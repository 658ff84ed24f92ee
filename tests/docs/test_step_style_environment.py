"""The page about step-style environments runs as a script, with the rewards that it states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from nemo_gym import PARENT_DIR

PAGE = PARENT_DIR / "docs" / "step_style_environment.md"


def test_from_nothing_to_rewards_of_steps(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    folder = tmp_path / "empty"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(PARENT_DIR / "docs" / "run_page.py"), str(PAGE), str(folder)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "runtime")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (folder / "results" / "higher_lower.jsonl").read_text().splitlines()]
    assert [(row["reward"], row["_ng_end_reason"]) for row in rows] == [(0.0, "terminated")] * 2
    assert all(len(row["step_rewards"]) == 5 for row in rows)
