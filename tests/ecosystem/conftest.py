"""The fixtures as a project of their own: a copy in a folder outside this repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FIXTURES = Path(__file__).with_name("fixtures")
collect_ignore = ["fixtures"]


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("ecosystem") / "project"
    shutil.copytree(FIXTURES, project, ignore=shutil.ignore_patterns("__pycache__", "ruff.toml", ".*"))
    return project


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Environment variables that hide the gyms of these tests from other processes."""
    return {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path_factory.mktemp("runtime")), "COLUMNS": "120"}


def run(
    project: Path, environment: dict[str, str], command: str, *arguments: str, limit_s: float = 600
) -> subprocess.CompletedProcess[str]:
    """A command of ours, run in the project as a person would."""
    return subprocess.run(
        [sys.executable, "-c", f"from nemo_gym.cli.{command} import main; main()", *arguments],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


@dataclass(frozen=True)
class RunningGym:
    project: Path
    head: str
    """The head server's URL."""
    urls: dict[str, list[str]]
    """Server → base URLs."""


@pytest.fixture(scope="module")  # sixty idle servers take a sixth of a core until they end
def gym(project: Path, environment: dict[str, str]) -> Iterator[RunningGym]:
    """`ng_run` with every server of the project."""
    program = "from nemo_gym.cli.run import main; main()"
    arguments = ["+config_paths=[configs/all.yaml]", "++head_server.port=0", "+json=true"]
    log = (project / "ng_run.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], cwd=project, env=environment, stdout=log, stderr=log
    )
    try:
        ready = _wait_until_ready(process, project / "ng_run.log")
        yield RunningGym(project, ready["head"], ready["servers"])
    finally:
        process.terminate()
        assert process.wait(30) == 0, (project / "ng_run.log").read_text()
        log.close()


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    give_up_at = time.monotonic() + 240  # of a busy machine
    while time.monotonic() < give_up_at and process.poll() is None:
        for line in log.read_text().splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "ready":
                return dict(event)
        time.sleep(0.05)
    raise AssertionError(f"the gym is not ready: {log.read_text()}")


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
