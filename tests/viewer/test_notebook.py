"""Rollouts in a notebook are a frame without access to the notebook."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import nemo_gym
from nemo_gym.viewer.notebook import view
from tests.browser.rows import failure_of, message, row_of, write_run

ROWS = [row_of(0, 0, [message("alpha")], 1.0), row_of(1, 0, [message("beta")], 0.0)]


@dataclass(frozen=True)
class Result:
    """The fields of `nemo_gym.evaluation.evaluation.Evaluation` that are read."""

    rollouts: list[dict[str, Any]]
    failures: list[dict[str, Any]] = field(default_factory=list)


def test_rows_files_and_results_are_shown(tmp_path: Path) -> None:
    run = write_run(tmp_path / "rollouts.jsonl", ROWS, [failure_of(2, 0)])
    for rows in (run, str(run), Result(ROWS, [failure_of(2, 0)])):
        assert view(rows).note.startswith("2 of 2 rollouts and 1 of 1 failed attempts of rollouts.jsonl")
    shown = view(iter(ROWS), filter="reward<1", height=300)
    assert shown.note.startswith("1 of 2 rollouts and 0 of 0 failed attempts")
    assert "1 of 2 rollouts" in repr(shown)


def test_a_notebook_gets_a_frame_that_holds_the_page() -> None:
    shown = view(ROWS, height=300)
    frame = shown._repr_html_()
    assert frame.startswith('<iframe title="Rollouts" sandbox="allow-scripts" srcdoc="')
    assert "height: 300px" in frame
    page, _, rest = frame.partition('srcdoc="')[2].partition('"')
    assert unescape(page) == shown.html
    assert "<" not in rest.removesuffix("></iframe>")


def test_the_name_of_the_package_is_loaded_on_first_use() -> None:
    assert nemo_gym.view is view
    code = "import sys, nemo_gym; sys.exit('nemo_gym.viewer.notebook' in sys.modules or not nemo_gym.view)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
