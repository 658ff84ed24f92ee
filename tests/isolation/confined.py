"""Runners of confined programs, with the isolations of this machine."""

from __future__ import annotations

import psutil
import pytest

from nemo_gym.isolation.confinement import isolations
from nemo_gym.isolation.execution import (
    ConfinedRunner,
    Execution,
    IsolationKind,
    SandboxLimits,
)
from nemo_gym.isolation.python_installation import PythonInstallation

INSTALLATION = PythonInstallation.from_gym()
PYTHON = tuple(INSTALLATION.command("")[:-1])


def make_sandbox(kind: IsolationKind | None = None) -> ConfinedRunner:
    """A runner with the strictest isolation of this machine, or the one of a given kind."""
    ways = [
        way
        for way in isolations(INSTALLATION.folders, python=INSTALLATION, allow_unsandboxed=True)
        if kind in (None, way.kind)
    ]
    if not ways:
        pytest.skip(f"this machine has no {kind}")
    return ConfinedRunner(probe=(*PYTHON, "pass"), python=INSTALLATION, candidates=ways)


async def require_bubblewrap() -> ConfinedRunner:
    sandbox = make_sandbox()
    if await sandbox.isolation() is not IsolationKind.BUBBLEWRAP:
        pytest.skip("bubblewrap does not work on this machine")
    return sandbox


async def run(sandbox: ConfinedRunner, code: str, **options: object) -> Execution:
    limits = options.pop("limits", SandboxLimits(wall_s=10))
    return await sandbox.run((*PYTHON, code), limits=limits, **options)  # type: ignore[arg-type]


DOUBLE_FORK = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for descriptor in range(64):
            try: os.close(descriptor)
            except OSError: pass
        os.execve("/bin/sleep", ["sleep", "TIME"], {})
    os._exit(0)
os.wait()
"""


def sleepers(seconds: str) -> list[int]:
    found = psutil.process_iter(["cmdline", "status"])
    return [
        process.pid
        for process in found
        if process.info["cmdline"] == ["sleep", seconds] and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


def processes_of(user: int) -> list[int]:
    found = psutil.process_iter(["uids", "status"])
    return [
        process.pid
        for process in found
        if process.info["uids"].real == user and process.info["status"] != psutil.STATUS_ZOMBIE
    ]
