"""Runners of confined programs, with the isolations of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.sandbox.execution import (
    ConfinedRunner,
    Execution,
    IsolationKind,
    SandboxLimits,
)
from nemo_gym.sandbox.isolation import isolations
from tests.pythons import python_for_other_users

PYTHON = (python_for_other_users(), "-s", "-S", "-B", "-X", "utf8", "-c")


FOLDERS = (Path(PYTHON[0]).parents[1],)


def make_sandbox(kind: IsolationKind | None = None) -> ConfinedRunner:
    """A runner with the strictest isolation of this machine, or the weakest of a given kind."""
    ways = [way for way in isolations(FOLDERS) if kind in (None, way.kind)]
    if not ways:
        pytest.skip(f"this machine has no {kind}")
    return ConfinedRunner(probe=(*PYTHON, "pass"), readable=FOLDERS, candidates=ways[-1:] if kind else ways)


async def require_bubblewrap() -> ConfinedRunner:
    sandbox = make_sandbox()
    if await sandbox.isolation() is not IsolationKind.BUBBLEWRAP:
        pytest.skip("bubblewrap does not work on this machine")
    return sandbox


async def run(sandbox: ConfinedRunner, code: str, **options: object) -> Execution:
    limits = options.pop("limits", SandboxLimits(wall_s=10))
    return await sandbox.run((*PYTHON, code), limits=limits, **options)  # type: ignore[arg-type]
