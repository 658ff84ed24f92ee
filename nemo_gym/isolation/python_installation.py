"""Python interpreters that run in sandboxes, and the folders that they read."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nemo_gym.failures import ConfigError

__all__ = ["PythonInstallation"]

_LOCATE = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix]))"
_LOCATE_TIMEOUT_S = 60.0
COPIES = Path("/var/cache/nemo_gym")
"""The folder of copied interpreters. Only root can write to it or to its parents."""
_NOT_COPIED = shutil.ignore_patterns(
    *("site-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "config-*", "*.a")
)


@dataclass(frozen=True, slots=True)
class PythonInstallation:
    """An interpreter, the folders it reads, and the options that it runs with."""

    executable: str
    folders: tuple[Path, ...]
    flags: tuple[str, ...]
    has_packages: bool
    """True if programs may import packages beside the standard library."""

    @classmethod
    def from_gym(cls) -> PythonInstallation:
        """Return the base interpreter of the gym's environment: the standard library without packages."""
        executable = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
        flags = ("-s", "-S", "-B", "-X", "utf8")
        return cls(executable, _list_folders(executable, [sys.base_prefix]), flags, has_packages=False)

    @classmethod
    def from_executable(cls, executable: str) -> PythonInstallation:
        """Return another interpreter, 3.9 or newer, with the packages of its environment.

        Raises ConfigError when it does not run.
        """
        executable = str(Path(shutil.which(executable) or executable).absolute())
        try:
            located = subprocess.check_output(
                [executable, "-c", _LOCATE], stderr=subprocess.DEVNULL, timeout=_LOCATE_TIMEOUT_S
            )
            prefixes: list[str] = json.loads(located)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            raise ConfigError(
                f"python_executable: {executable} does not run: {error}", code="python_unusable"
            ) from error
        flags = ("-s", "-B", "-X", "utf8")
        return cls(executable, _list_folders(executable, prefixes), flags, has_packages=True)

    def command(self, source: str) -> list[str]:
        """The command that runs a program."""
        return [self.executable, *self.flags, "-c", source]

    def build_open_command(self, program: Sequence[str]) -> list[str]:
        """Return the command `program` so that another user can execute it.

        If the interpreter lies in a closed folder, it is replaced by a copy without packages. Raises OSError if it
        cannot be copied, and PermissionError if its programs need packages.
        """
        copy = self.find_open_copy() if program[0] == self.executable else None
        if copy is None:
            return list(program)
        libraries = f"LD_LIBRARY_PATH={copy / 'lib'}"
        return ["/usr/bin/env", libraries, str(copy / "bin" / Path(self.executable).name), *program[1:]]

    def find_open_copy(self) -> Path | None:
        """Return the prefix of a copy for other users, without packages; None if they can execute the interpreter.

        Raises OSError if it cannot be copied, and PermissionError if its programs need packages.
        """
        if is_open_to_others(Path(self.executable)):
            return None
        if self.has_packages:
            raise PermissionError(f"other users cannot execute {self.executable}")
        return _make_copy(Path(self.executable), self.folders[0])


def _list_folders(executable: str, prefixes: Sequence[str]) -> tuple[Path, ...]:
    """Return the folders an interpreter reads: its prefixes, with and without symbolic links, without nested ones."""
    home = Path(os.path.realpath(executable)).parents[1]
    found = {home, *map(Path, prefixes), *(Path(os.path.realpath(prefix)) for prefix in prefixes)}
    return tuple(sorted(folder for folder in found if found.isdisjoint(folder.parents)))


def is_open_to_others(executable: Path) -> bool:
    """Return whether every user can execute a file."""
    return all(path.stat().st_mode & stat.S_IXOTH for path in (executable, *executable.parents))


def _make_copy(executable: Path, prefix: Path) -> Path:
    """Return a copy of an interpreter and its standard library, made once for all gyms. Raises OSError."""
    state = f"{executable} {executable.stat().st_mtime_ns} {sys.version}"
    copy = COPIES / f"python-{hashlib.sha256(state.encode()).hexdigest()[:16]}"
    if copy.is_dir():
        return copy
    COPIES.mkdir(mode=0o755, parents=True, exist_ok=True)
    COPIES.chmod(0o755)
    library = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    with tempfile.TemporaryDirectory(dir=COPIES, prefix="new-") as folder:
        new = Path(folder) / "python"
        (new / "bin").mkdir(parents=True)
        shutil.copy(executable, new / "bin" / executable.name)
        shutil.copytree(prefix / "lib" / library, new / "lib" / library, ignore=_NOT_COPIED)
        for shared in (prefix / "lib").glob("libpython*.so*"):
            shutil.copy(shared, new / "lib" / shared.name)
        _open(new)
        try:
            new.rename(copy)
        except OSError:
            if not copy.is_dir():  # another gym has not made it meanwhile
                raise
    return copy


def _open(folder: Path) -> None:
    """Let every user read a folder."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.parent.name == "bin" else 0o644)
