"""The loader, the digest and the linter say what Harbor's own say."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sources.task_folders.dataset import find_tasks
from nemo_gym.sources.task_folders.folder import TaskFolderError, load_folder
from nemo_gym.sources.task_folders.lint.linting import lint_folder
from nemo_gym.sources.task_folders.requirements import Terms
from nemo_gym.sources.task_folders.rows import build_rows
from tests.folders.generated import generate_folder
from tests.sources.task_folders.task_maker import make_task

pytestmark = pytest.mark.folders
REFERENCE = Path(__file__).with_name("harbor_reference.py")
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "task_folders" / "terminal_tasks"
GENERATED = 600


def ask_harbor(harbor: Path, folders: list[Path]) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [harbor / "python", REFERENCE, *folders], capture_output=True, text=True, check=True
    )
    return {found["name"]: found for found in map(json.loads, done.stdout.splitlines())}


def describe(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"name": folder.name}
    try:
        task = load_folder(folder)
        text = "" if task.settings.steps else task.instruction()
        found |= {"loads": True, "instruction": text, "digest": task.digest}
    except TaskFolderError:
        found |= {"loads": False}
    found["lint"] = sorted([each.rule.value, each.line or 0] for each in lint_folder(folder))
    return found


def test_every_folder_is_loaded_or_refused_and_linted_alike(harbor: Path, tmp_path: Path) -> None:
    folders = [generate_folder(tmp_path / f"task{seed:04}", seed) for seed in range(GENERATED)]
    folders += sorted(SHARED.iterdir()) if SHARED.is_dir() else []
    theirs = ask_harbor(harbor, folders)
    assert not [found for found in theirs.values() if "lint_error" in found]
    for found in theirs.values():
        found.pop("error", None)
    loaded = [found["loads"] for found in theirs.values()]
    assert min(loaded.count(True), loaded.count(False)) > GENERATED / 5  # of both, enough
    assert {folder.name: describe(folder) for folder in folders} == theirs


def test_a_thousand_folders_are_rows_within_ten_seconds_of_a_core(tmp_path: Path) -> None:
    for number in range(1000):
        make_task(tmp_path / "tasks" / f"task{number:04}")
    began = time.process_time()
    assert len(build_rows(find_tasks(tmp_path / "tasks"), Terms()).rows) == 1000
    spent = time.process_time() - began
    assert spent < 10, f"{spent:.1f} s"
