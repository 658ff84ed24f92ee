"""A Python interpreter that other users may execute, because untrusted code never runs as root."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest


def python_for_other_users() -> str:
    """Return an interpreter that every user can execute. Skip the test module if there is none."""
    candidates = (getattr(sys, "_base_executable", sys.executable), shutil.which("python3", path="/usr/bin"))
    for candidate in candidates:
        if candidate and (os.geteuid() != 0 or _is_open_to_others(Path(candidate).resolve())):
            return candidate
    pytest.skip("no Python here can be executed by another user", allow_module_level=True)


def _is_open_to_others(executable: Path) -> bool:
    return all(path.stat().st_mode & stat.S_IXOTH for path in (executable, *executable.parents))
