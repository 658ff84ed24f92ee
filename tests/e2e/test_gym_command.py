"""`gym eval run`, `gym env start` and `gym env status` as a user types them, with the engine stub as a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.e2e.gym_command import GYM, run_gym
from tests.waiting import wait_until

BIN = Path(sys.executable).parent
SECRET = "canary-7c1f"
MODEL = "Qwen3-8B"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "runtime").mkdir(mode=0o700)
    return {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path / "runtime"), "COLUMNS": "80", "MY_KEY": SECRET}


@pytest.fixture
def engine(tmp_path: Path, environment: dict[str, str]) -> Iterator[str]:
    command: list[str | Path] = [
        BIN / "ng_mock_engine",
        f"+model={MODEL}",
        f"+api_key={SECRET}",
        "+json=true",
    ]
    with process(command, tmp_path, environment) as engine:
        assert engine.stdout is not None
        yield str(json.loads(engine.stdout.readline())["base_url"])


@contextmanager
def process(
    command: Sequence[str | Path], folder: Path, environment: dict[str, str]
) -> Iterator[subprocess.Popen[str]]:
    with (folder / "stderr.txt").open("a") as errors:
        started = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True
        )
    try:
        yield started
    finally:
        started.terminate()
        started.communicate(timeout=60)


def policy(url: str) -> list[str]:
    return ["--url", url, "--model", MODEL, "--model-api-key", "env:MY_KEY", "+head_server.port=0"]


def test_an_environment_is_run_by_its_name(tmp_path: Path, environment: dict[str, str], engine: str) -> None:
    line = ["eval", "run", "mcqa", "-n", "2", "--limit", "3", *policy(engine)]
    done = run_gym(tmp_path, environment, *line)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(text) for text in (tmp_path / "results" / "mcqa.jsonl").read_text().splitlines()]
    assert len(rows) == 6
    assert {row["agent_ref"]["name"] for row in rows} == {"mcqa_simple_agent"}
    again = run_gym(tmp_path, environment, *line, "--resume", "--json")
    assert again.returncode == 0, again.stderr
    assert SECRET not in done.stdout + done.stderr + again.stdout + again.stderr


def command_lines_below(pid: int) -> list[str]:
    """The command line of every living descendant of a process."""
    lines = []
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # a probe of the machine, which has ended
            lines.append(" ".join(child.cmdline()))
    return lines


def test_a_gym_starts_by_name_and_serves_a_run_without_servers(
    tmp_path: Path, environment: dict[str, str], engine: str
) -> None:
    command = [*GYM, "env", "start", "mcqa", "--json", *policy(engine)]
    with process(command, tmp_path, environment) as started:
        wait_until(lambda: (tmp_path / ".nemo_gym_global_config.yaml").exists())
        lines = command_lines_below(started.pid)
        assert lines
        assert not [line for line in lines if SECRET in line]
        examples = "resources_servers/mcqa/data/example.jsonl"
        line = ["eval", "run", "--no-serve", "-a", "mcqa_simple_agent", "-i", examples, "-o", "out.jsonl"]
        done = run_gym(tmp_path, environment, *line, "--limit", "2")
        assert done.returncode == 0, done.stderr
        shown = json.loads(run_gym(tmp_path, environment, "env", "status", "--json").stdout)
        assert {server["name"] for server in shown[0]["servers"]} >= {"mcqa", "policy_model"}
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 2
