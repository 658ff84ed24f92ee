"""The supervisor, run as it runs in a sandbox: as a file, by another interpreter without our packages."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.sandbox import process_supervisor
from tests.waiting import is_running, wait_until


def command(folder: Path, *program: str, timeout: float = 60.0, more: tuple[str, ...] = ()) -> list[str]:
    options = ["--timeout", str(timeout), "--cleanup-timeout", "5", "--receipt", str(folder / "receipt.json")]
    return [sys.executable, "-I", process_supervisor.__file__, *options, *more, "--", *program]


def receipt(folder: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((folder / "receipt.json").read_text())
    return answer


def run(folder: Path, *program: str, **options: Any) -> int:
    return subprocess.run(command(folder, *program, **options), check=False, timeout=60).returncode


def pid_in(file: Path) -> int:
    wait_until(lambda: file.exists() and file.read_text().strip())
    return int(file.read_text())


@pytest.mark.parametrize("code", [0, 3])
def test_the_receipt_has_the_exit_code(tmp_path: Path, code: int) -> None:
    assert run(tmp_path, "sh", "-c", f"exit {code}") == 0
    assert receipt(tmp_path) == {
        "cleanup_confirmed": True,
        "return_code": code,
        "error": None,
        "timed_out": False,
    }


def test_at_the_deadline_the_command_can_finish(tmp_path: Path) -> None:
    script = f"trap 'echo saved > {tmp_path}/state; exit 0' TERM; while :; do sleep 0.05; done"
    assert run(tmp_path, "sh", "-c", script, timeout=1.0) == 0
    assert (tmp_path / "state").read_text() == "saved\n"
    assert receipt(tmp_path)["timed_out"] is True


def test_descendants_that_left_the_group_are_killed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    away = f"setsid sh -c 'echo $$ > {pid}; sleep 600'"
    script = f"{away} & while [ ! -s {pid} ]; do :; done"
    assert run(tmp_path, "sh", "-c", script) == 0
    assert receipt(tmp_path)["cleanup_confirmed"] is True
    assert not is_running(pid_in(tmp_path / "pid"))


@pytest.mark.parametrize("way", ["signal", "file"])
def test_a_stop_ends_the_command(tmp_path: Path, way: str) -> None:
    program = ("sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 600")
    line = command(tmp_path, *program, more=("--stop-file", str(tmp_path / "stop")))
    with subprocess.Popen(line) as supervisor:
        pid = pid_in(tmp_path / "pid")
        if way == "signal":
            supervisor.send_signal(signal.SIGTERM)
        else:
            (tmp_path / "stop").touch()
        assert supervisor.wait(60) == 0
    assert not is_running(pid)
    assert receipt(tmp_path) | {"return_code": -signal.SIGTERM} == receipt(tmp_path)


def test_a_stop_before_the_start_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "stop").touch()
    assert run(tmp_path, "touch", str(tmp_path / "ran"), more=("--stop-file", str(tmp_path / "stop"))) == 0
    assert not (tmp_path / "ran").exists()
    assert receipt(tmp_path)["return_code"] is None


def test_a_missing_program_is_an_error_of_the_receipt(tmp_path: Path) -> None:
    assert run(tmp_path, str(tmp_path / "no program")) == 1
    assert "no program" in receipt(tmp_path)["error"]
    assert [file.name for file in tmp_path.iterdir()] == ["receipt.json"]


def test_a_provider_allows_for_every_step_of_the_cleanup() -> None:
    assert process_supervisor.exec_timeout(timeout=10) > 10 + 3 * process_supervisor.DEFAULT_CLEANUP_TIMEOUT
    assert process_supervisor.exec_timeout(timeout=10, cleanup_timeout=1) > 13
