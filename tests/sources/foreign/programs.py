"""Hosts of a kind of our own, for tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from nemo_gym.sources.foreign.process import HostProgram

WAYWARD = Path(__file__).with_name("wayward_kind.py")
PLAYING = Path(__file__).with_name("playing_kind.py")


def copy_program(folder: Path, name: str = "env", file: Path = WAYWARD, **options: float) -> HostProgram:
    """Return a program whose command line has `folder`, by which `list_processes` finds its hosts."""
    kind = folder / "kind" / file.name
    kind.parent.mkdir(mode=0o755, exist_ok=True)
    kind.write_text(file.read_text())
    kind.chmod(0o644)  # hosts of root run as users of their own
    return HostProgram(str(kind), name, Path(sys.executable), **options)  # type: ignore[arg-type]


def list_processes(folder: Path) -> Iterator[psutil.Process]:
    """Yield the running processes whose command line names a file in `folder`."""
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or ())
        if str(folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            yield process
