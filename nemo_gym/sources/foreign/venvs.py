"""Interpreters with the packages of a kind, each in a folder of its own that is named by all that it is made of.

The packages are those of the kind's lock, with their hashes, as wheels: nothing is built, and nothing of them runs
before it is in a sandbox. A file lock lets one process build while others wait, and a marker is written last. Runs
install nothing: a command builds before its servers start.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from nemo_gym.failures import ConfigError
from nemo_gym.sources.foreign.kinds import ForeignKind

_ROOT_FOLDER: Final = Path("/var/cache/nemo_gym/environments")
_READY: Final = "nemo_gym_ready"
_REFUSED: Final = {
    "nemo-gym": "a foreign environment never imports the gym",
    "ors": "this package is a map service; Open Reward Standard is `openreward`",
}
"""Names that a lock must not have, and why."""
_PINNED = re.compile(r"^([A-Za-z0-9][\w.-]*)(\[[^\]]*\])?\s*==")
_PROBE_S = 60.0
_SHOWN_CHARS = 1500


class Venvs:
    """The interpreters below one folder."""

    def __init__(
        self, folder: Path | None = None, announce: Callable[[str], None] = lambda line: None
    ) -> None:
        self.folder = folder or find_default_folder()
        self._announce = announce

    def find(self, kind: ForeignKind) -> Path:
        """Return the interpreter of a kind that is there. Raises `ConfigError` if it was never built."""
        venv = self._find_venv(kind, self.find_python(kind))
        if not is_ready(venv):
            raise ConfigError(
                f"The packages of {kind.title} are not installed for this gym (no {venv}).",
                code="environment_missing",
                remedy=f"gym env prefetch {kind.name}",
            )
        return venv / "bin" / "python"

    def build(self, kind: ForeignKind) -> Path:
        """Return the interpreter of a kind, and build it first if it is not there. Raises `ConfigError`."""
        check_lock(kind.lock.read_text(encoding="utf-8"), kind)
        base = self.find_python(kind)
        venv = self._find_venv(kind, base)
        with self._lock(venv):
            if not is_ready(venv):
                self._announce(
                    f"installing the packages of {kind.title} from their lock, once (log: {venv}.log)"
                )
                self._install(kind, base, venv)
        return venv / "bin" / "python"

    def find_python(self, kind: ForeignKind) -> str:
        """Return an interpreter on which the packages of a kind run. Raises `ConfigError` if there is none."""
        for version in kind.pythons:
            found = locate_python(version)
            if found is not None:
                return found
        tried = ", ".join(f"python{version}" for version in kind.pythons)
        raise ConfigError(
            f"{kind.title} runs on Python {' or '.join(kind.pythons)}, and none is here (tried {tried}).",
            code="python_missing",
            remedy="Install one, so that it is on the PATH.",
        )

    def _find_venv(self, kind: ForeignKind, base: str) -> Path:
        identity = [base, sysconfig.get_platform(), kind.lock.read_text(encoding="utf-8")]
        digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()[:16]
        return self.folder / f"{kind.name}-{digest}"

    def _install(self, kind: ForeignKind, base: str, venv: Path) -> None:
        shutil.rmtree(venv, ignore_errors=True)  # an earlier build was interrupted
        create, install = build_commands(base, venv, kind.lock)
        with Path(f"{venv}.log").open("wb") as log:
            for command in (create, install):
                done = subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False
                )
                if done.returncode != 0:
                    raise _explain(kind, Path(f"{venv}.log"), done.returncode)
        venv.chmod(0o755)
        (venv / _READY).touch()

    @contextlib.contextmanager
    def _lock(self, venv: Path) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with Path(f"{venv}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def find_default_folder() -> Path:
    """Return the folder of all gyms of this user."""
    if os.geteuid() == 0:
        return _ROOT_FOLDER
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nemo_gym" / "environments"


def is_ready(venv: Path) -> bool:
    """Return whether an environment is complete and its interpreter still exists."""
    return (venv / _READY).exists() and os.access(venv / "bin" / "python", os.X_OK)


def check_lock(text: str, kind: ForeignKind) -> None:
    """Raise `ConfigError` for a lock with a requirement that is not pinned, has no hash, or must not be there."""
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]
    problems = []
    for line in (line for line in lines if line and not line.startswith("#")):
        pinned = _PINNED.match(line)
        name = pinned[1].lower().replace("_", "-") if pinned else line.split()[0]
        if pinned is None:
            problems.append(f"{name} is not pinned by ==")
        elif "--hash=" not in line:
            problems.append(f"{name} has no hash")
        if name in _REFUSED:
            problems.append(f"{name}: {_REFUSED[name]}")
    if problems:
        raise ConfigError(f"The lock of {kind.title} cannot be used: {'; '.join(problems)}.", code="bad_lock")


def build_commands(base: str, venv: Path, lock: Path) -> tuple[list[str], list[str]]:
    """Return the commands that create an environment and install a lock, with uv if it is here, else with pip."""
    python = str(venv / "bin" / "python")
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        return (
            [uv, "venv", "--quiet", "--python", base, str(venv)],
            [
                *(
                    uv,
                    "pip",
                    "install",
                    "--quiet",
                    "--compile-bytecode",
                    "--python",
                    python,
                    "--require-hashes",
                ),
                *("--only-binary", ":all:", "-r", str(lock)),
            ],
        )
    return (
        [base, "-m", "venv", str(venv)],
        [
            *(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes"),
            *("--only-binary", ":all:", "-r", str(lock)),
        ],
    )


@cache
def locate_python(version: str) -> str | None:
    """Return the real interpreter of a version, this one or one on the PATH; None if none runs."""
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    for command in ([f"python{version}"], ["pyenv", "exec", f"python{version}"]):
        found = probe_python(command, version)
        if found is not None:
            return found
    return None


def probe_python(command: Sequence[str], version: str) -> str | None:
    """Return the executable that a command starts, if it runs; pyenv is asked for the version that is named."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            [*command, "-c", "import os, sys; print(os.path.realpath(sys.executable))"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_S,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYENV_VERSION": version},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _explain(kind: ForeignKind, log: Path, status: int) -> ConfigError:
    said = log.read_text(encoding="utf-8", errors="replace").strip()[-_SHOWN_CHARS:]
    return ConfigError(
        f"The packages of {kind.title} could not be installed (exit code {status}): {said}",
        code="environment_failed",
        remedy=f"Without a network, run `gym env prefetch {kind.name}` where there is one. Full log: {log}",
    )
