"""A runner for each kind of isolation."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nemo_gym.isolation.execution import (
    ConfinedRunner,
    IsolationKind,
)
from tests.isolation.confined import make_sandbox


@pytest.fixture(params=list(IsolationKind))
def sandbox(request: pytest.FixtureRequest) -> ConfinedRunner:
    return make_sandbox(request.param)


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A search path without bubblewrap."""
    for name in ("prlimit", "setpriv"):
        found = shutil.which(name)
        if found is not None:
            (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.fixture
def no_own_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A search path with neither bubblewrap nor a way to change the user."""
    (tmp_path / "prlimit").symlink_to(shutil.which("prlimit") or "/usr/bin/prlimit")
    monkeypatch.setenv("PATH", str(tmp_path))
