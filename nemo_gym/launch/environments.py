"""A virtual environment for a server that needs more than the core, and only for such a server.

The folder's name is a hash of everything that went into it, so an environment is never changed: other
requirements are another folder, equal ones share it. A file lock lets one process build while others wait; a
marker written last tells a finished environment from a torn one.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from nemo_gym import CACHE_DIR, PARENT_DIR
from nemo_gym.launch import _logs as logs
from nemo_gym.launch._requirements import Requirements, find_unsatisfied, own_requirements, read_requirements
from nemo_gym.launch.errors import LaunchError

LINKED_PACKAGES = (
    "nemo_gym",
    "resources_servers",
    "responses_api_agents",
    "responses_api_models",
)
"""Our packages, linked into every environment instead of installed: they are always those of this run."""
_READY_MARKER = "nemo_gym_ready"
_PROBE = "import nemo_gym.serving.base"

RunInstaller = Callable[[Sequence[str], Path, Path], None]
"""Runs a command in a folder, its output appended to a log. Raises `LaunchError` when it fails."""


class Environments:
    """Chooses, and where needed builds, the interpreter for a requirements file."""

    def __init__(
        self,
        announce: Callable[[str], None],
        folder: Path = CACHE_DIR / "venvs",
        run: RunInstaller | None = None,
    ) -> None:
        """`announce` gets a line when an environment is built; `run` stands in for the installers in tests."""
        self._announce = announce
        self._folder = folder
        self._run = run or run_logged

    async def choose(self, requirements: Path) -> str | None:
        """The interpreter that satisfies `requirements`; None where the running one does."""
        return await asyncio.to_thread(self.choose_now, requirements)

    def choose_now(self, path: Path | None, *, beside: Sequence[str] = ()) -> str | None:
        """As `choose`, in the calling thread. Raises `LaunchError` when the environment cannot be built.

        `beside` are requirements that the file does not state; without a file they are all there are.
        """
        requirements = read_requirements(path) if path is not None else Requirements()
        requirements = replace(requirements, packages=(*requirements.packages, *beside))
        unsatisfied = find_unsatisfied(requirements)
        if not unsatisfied:
            return None
        lines = [*own_requirements(requirements.own_extras), *requirements.lines]
        environment = self._folder / fingerprint(lines)
        with self._lock(environment):
            if not is_ready(environment):
                needing = f" for {path}" if path is not None else ""
                self._announce(f"building an environment{needing}: {', '.join(unsatisfied)}")
                self._build(environment, requirements, lines, path.parent if path is not None else Path.cwd())
        return str(interpreter(environment))

    def _build(
        self, environment: Path, requirements: Requirements, lines: Sequence[str], directory: Path
    ) -> None:
        if environment.exists():
            shutil.rmtree(environment)  # an earlier build was interrupted
        log = environment.with_suffix(".log")
        listing = environment.with_suffix(".txt")
        listing.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for command in installer_commands(environment, listing):
            self._run(command, directory, log)
        link_own_packages(environment)
        self._run([str(interpreter(environment)), "-c", _PROBE], directory, log)
        (environment / _READY_MARKER).touch()

    @contextlib.contextmanager
    def _lock(self, environment: Path) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with environment.with_suffix(".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def fingerprint(lines: Sequence[str]) -> str:
    """A name for the environment that `lines` make with this interpreter and these packages of ours."""
    identity = [
        sys.implementation.cache_tag,
        sysconfig.get_platform(),
        sys.base_prefix,
        str(PARENT_DIR),
        *lines,
    ]
    return hashlib.sha256("\n".join(map(str, identity)).encode()).hexdigest()[:16]


def interpreter(environment: Path) -> Path:
    return environment / "bin" / "python"


def is_ready(environment: Path) -> bool:
    """Whether the environment was built to its end and its interpreter still exists."""
    return (environment / _READY_MARKER).exists() and os.access(interpreter(environment), os.X_OK)


def installer_commands(environment: Path, listing: Path) -> list[list[str]]:
    """Commands that make `environment` with the packages in `listing`: by uv where it is at hand, else by pip."""
    python = str(interpreter(environment))
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        return [
            [uv, "venv", "--quiet", "--python", sys.executable, str(environment)],
            [uv, "pip", "install", "--quiet", "--python", python, "-r", str(listing)],
        ]
    return [
        [sys.executable, "-m", "venv", str(environment)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(listing)],
    ]


def link_own_packages(environment: Path) -> None:
    """Make our packages importable in `environment`, and nothing else of this interpreter's."""
    bases = {"base": str(environment), "platbase": str(environment)}
    site_packages = Path(sysconfig.get_path("purelib", "venv", vars=bases))
    for name in LINKED_PACKAGES:
        package = PARENT_DIR / name
        if package.is_dir():
            (site_packages / name).symlink_to(package, target_is_directory=True)


def run_logged(command: Sequence[str], directory: Path, log: Path) -> None:
    """Run `command` in `directory`, its output appended to `log`. Raises `LaunchError` with the last lines."""
    with log.open("ab") as output:
        done = subprocess.run(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        raise LaunchError(
            f"{logs.explain_death(log)}\n`{' '.join(command)}` failed with exit code {done.returncode}",
            code="environment_failed",
            remedy=f"Its whole output: {log}",
        )
