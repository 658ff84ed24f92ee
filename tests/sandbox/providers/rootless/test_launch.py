"""The command line of a sandbox, and the machines that cannot run one."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import pytest

from nemo_gym.sandbox.providers.rootless.launch import (
    SandboxShape,
    build_command,
    find_missing,
)
from nemo_gym.sandbox.providers.rootless.store import ImageStore

PROCESSES = 100


def test_another_system_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    assert find_missing() == "it needs Linux, and this is Darwin: use docker or podman there"


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(
        shutil, "which", lambda program: None if program == "bwrap" else f"/usr/bin/{program}"
    )
    missing = find_missing()
    assert missing is not None
    assert missing.startswith("bwrap is not installed")


def test_layers_lie_below_each_other_and_only_builds_have_a_network(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "store")
    places = store.new_sandbox()
    try:
        command = build_command(store, places, SandboxShape(["low", "high"]), PROCESSES, (3, 4), None)
        assert "layers/high:layers/low" in command
        assert "--unshare-net" in command
        assert "--disable-userns" in command
        with_network = SandboxShape(["low"], has_network=True)
        assert "--unshare-net" not in build_command(store, places, with_network, PROCESSES, (3, 4), None)
    finally:
        places.remove()
