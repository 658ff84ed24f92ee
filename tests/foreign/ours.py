"""Environments of ours for the tests that offer them to other projects: rows of our own agent, and running gyms."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from tests.e2e.gym_command import GYM
from tests.e2e.gym_run import read_lines

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = (
    "example_single_tool_call",
    "example_multi_step",
    "example_session_state_mgmt",
    "mcqa",
)
MOST_ROWS = 20
_OTHER_CONVERSATIONS = "\n- turns: [text: I do not know.]\n"
LAZY = "- turns: [text: 'I do not know.']\n"
"""The script of a policy that calls no tool."""


def read_gold(name: str) -> str:
    """Return the script of a policy that solves the rows of an environment."""
    gold = (ROOT / "resources_servers" / name / "data" / "example_gold.yaml").read_text(encoding="utf-8")
    return gold + _OTHER_CONVERSATIONS


@contextmanager
def running_engine(folder: Path, script: str) -> Iterator[EngineProcess]:
    file = folder / "script.yaml"
    file.write_text(script)
    with EngineProcess(EngineOptions(policy="script", script=file)) as engine:
        yield engine


def run_agent(folder: Path, name: str, engine: EngineProcess) -> list[dict[str, Any]]:
    """Return the rows of our own agent, in the order of their tasks."""
    line = [*GYM, "eval", "run", name, "--url", engine.base_url, "--model", "mock", "-o", "out.jsonl"]
    line += ["--limit", str(MOST_ROWS), "++head_server.port=0"]
    done = subprocess.run(
        line, cwd=folder, env=build_variables(folder), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return sorted(read_lines(folder / "out.jsonl"), key=lambda row: int(row["_ng_task_index"]))


@contextmanager
def running_gym(folder: Path, *arguments: str, announced: str) -> Iterator[re.Match[str]]:
    """Start a gym, wait for the line that `announced` matches, and end the gym with the block."""
    with subprocess.Popen(
        [*GYM, "env", "start", *arguments, "++head_server.port=0"],
        cwd=folder,
        env=build_variables(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        printed = []
        try:
            for line in process.stdout:
                printed.append(line)
                found = re.search(announced, line)
                if found is not None:
                    yield found
                    return
            raise AssertionError("".join(printed))
        finally:
            process.send_signal(signal.SIGTERM)
            process.stdout.read()


def build_variables(folder: Path) -> dict[str, str]:
    (folder / "runtime").mkdir(mode=0o700, exist_ok=True)
    return {**os.environ, "XDG_RUNTIME_DIR": str(folder / "runtime"), "NO_PROXY": "127.0.0.1"}
