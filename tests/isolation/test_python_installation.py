"""Interpreters that run in sandboxes, and their copies for other users."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.isolation.python_installation import PythonInstallation, is_open_to_others
from nemo_gym.verify.code_execution import CallCase, CodeRunner
from tests.isolation.confined import INSTALLATION


async def test_another_interpreter_brings_its_packages() -> None:
    runner = CodeRunner(python=sys.executable)
    verdict = await runner.call_function("import orjson\ndef f(): return 1", "f", [CallCase([], [1])])
    assert verdict.passed
    with pytest.raises(ConfigError, match="python_executable"):
        CodeRunner(python="/nowhere/python")


def test_the_interpreter_of_the_gym_brings_no_packages() -> None:
    python = PythonInstallation.from_gym()
    found = subprocess.run(
        python.command("import sys; print([p for p in sys.path if 'site-packages' in p])"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout == "[]\n"
    assert all(folder.is_dir() for folder in python.folders)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can copy its interpreter for other users")
def test_other_users_can_execute_the_interpreter_of_the_gym() -> None:
    command = INSTALLATION.build_open_command(INSTALLATION.command("import json, sqlite3; print(1)"))
    executable = next(Path(part) for part in command if part.startswith("/") and "python" in part)
    assert is_open_to_others(executable.resolve())
    assert subprocess.run(command, capture_output=True, check=True, user=65534).stdout == b"1\n"


@pytest.mark.usefixtures("no_bubblewrap")
async def test_a_python_with_packages_is_not_copied(tmp_path: Path) -> None:
    packages = tmp_path / "closed"
    packages.mkdir(mode=0o700)
    python = replace(INSTALLATION, executable=str(packages / "python"), has_packages=True)
    (packages / "python").symlink_to(INSTALLATION.executable)
    with pytest.raises(PermissionError, match="other users cannot execute"):
        python.build_open_command(python.command("pass"))


def test_other_programs_are_not_replaced() -> None:
    assert INSTALLATION.build_open_command(["/bin/true", "x"]) == ["/bin/true", "x"]
