"""The interpreter that is mounted into containers needs nothing of the image."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.isolation import portable_python
from nemo_gym.isolation.portable_python import PortablePython, loader_of
from responses_api_agents.external_agent.attempt import FORWARDER


def test_the_interpreter_runs_from_its_mounts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLACE", "_LOADER", "_LIBRARIES"):
        moved = tmp_path / getattr(portable_python, name).relative_to("/")
        monkeypatch.setattr(portable_python, name, moved)
    python = PortablePython.of_the_gym()
    for here, there in python.mounts:
        there.parent.mkdir(parents=True, exist_ok=True)
        if here.is_dir():
            there.symlink_to(here)
        else:
            shutil.copy(here, there)
    program = "import asyncio, sys; print(sys.prefix, asyncio.__file__, sys.argv[1:])"
    misleading = {"PYTHONHOME": "/nowhere", "PYTHONPATH": "/nowhere", "LD_LIBRARY_PATH": "/nowhere"}
    done = subprocess.run(
        [*python.command(program), "a b"], env=misleading, capture_output=True, text=True, check=True
    )
    prefix, module, *arguments = done.stdout.split(maxsplit=2)
    assert Path(prefix) == portable_python.PLACE
    assert Path(module).is_relative_to(portable_python.PLACE)
    assert arguments == ["['a b']\n"]


def test_every_mount_exists_and_the_forwarder_starts() -> None:
    python = PortablePython.of_the_gym()
    assert [str(here) for here, _ in python.mounts if not here.exists()] == []
    assert len({there for _, there in python.mounts}) == len(python.mounts)
    compile(FORWARDER.read_text(), "forwarder", "exec")


def test_the_loader_is_that_of_the_header(tmp_path: Path) -> None:
    loader = loader_of(Path(sys.executable).resolve())
    assert loader is None or loader.is_file()
    (tmp_path / "script").write_text("#!/bin/sh\n")
    with pytest.raises(ConfigError, match="no 64-bit program"):
        loader_of(tmp_path / "script")
