"""The tutorial runs as a script, with the results that it states."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from nemo_gym import PARENT_DIR

PAGE = PARENT_DIR / "docs" / "writing_an_environment.md"


def test_from_nothing_to_scored_rollouts(tmp_path: Path) -> None:
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
    for name in ("drawers", "with_engine"):
        rows = [json.loads(line) for line in (folder / "results" / f"{name}.jsonl").read_text().splitlines()]
        rewards = {row["_ng_task_index"]: row["reward"] for row in rows}
        assert rewards == {0: 1.0, 1: 0.0, 2: 1.0, 3: 0.0, 4: 1.0}, "the left drawer, as the page says"
    assert "all 5 example tasks get their best reward" in " ".join(done.stdout.split())
    assert "resources_servers/drawers: passed" in done.stdout
    profile = (folder / "results" / "profile.jsonl").read_text().splitlines()
    assert [json.loads(line)["pass_rate"] for line in profile] == [1.0, 0.0, 1.0, 0.0, 1.0]


def test_the_environment_on_the_page_is_one_file_of_thirty_lines_of_code_or_fewer() -> None:
    page = PAGE.read_text(encoding="utf-8")
    code = page.partition('```python title="resources_servers/drawers/app.py"\n')[2].partition("```")[0]
    assert 20 < len([line for line in code.splitlines() if line]) <= 30
