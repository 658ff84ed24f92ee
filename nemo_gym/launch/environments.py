"""Virtual environments for servers whose requirements the running interpreter does not meet.

An environment is immutable: its folder is named by a hash of all inputs, so equal requirements share it. A file lock
lets one process build while others wait. A marker file, written last, shows that the build is complete.
"""

from __future__ import annotations

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
    "environment_servers",
)
"""Packages of this project, linked into every environment, so that it always uses those of this run."""
_READY_MARKER = "nemo_gym_ready"
_PROBE = "import nemo_gym.serving.base"

RunInstaller = Callable[[Sequence[str], Path, Path], None]
"""Runs a command in a folder and appends its output to a log. Raises `LaunchError` if it fails."""


class Environments:
    """Chooses the interpreter for a requirements file, and builds its environment if needed."""

    def __init__(
        self,
        announce: Callable[[str], None],
        folder: Path = CACHE_DIR / "venvs",
        run: RunInstaller | None = None,
    ) -> None:
        """`announce` receives a line when an environment is built; tests replace `run`."""
        self._announce = announce
        self._folder = folder
        self._run = run or run_logged

    def choose(self, path: Path | None, *, beside: Sequence[str] = ()) -> str | None:
        """The interpreter that satisfies the requirements file `path`; None for the running one.

        `beside` are requirements in addition to those of the file, which may be missing. Blocks while the environment
        is built. Raises `LaunchError` if it cannot be built.
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
    """The name of the environment with requirements `lines` for this interpreter and project."""
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
    """Return whether the environment is complete and its interpreter still exists."""
    return (environment / _READY_MARKER).exists() and os.access(interpreter(environment), os.X_OK)


def installer_commands(environment: Path, listing: Path) -> list[list[str]]:
    """Commands that build `environment` with the packages in `listing`, using uv if available, else pip."""
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
    """Make this project's packages importable in `environment`."""
    bases = {"base": str(environment), "platbase": str(environment)}
    site_packages = Path(sysconfig.get_path("purelib", "venv", vars=bases))
    for name in LINKED_PACKAGES:
        package = PARENT_DIR / name
        if package.is_dir():
            (site_packages / name).symlink_to(package, target_is_directory=True)


def run_logged(command: Sequence[str], directory: Path, log: Path) -> None:
    """Run `command` in `directory` and append its output to `log`. Raises `LaunchError` with the last lines."""
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
            remedy=f"Read its full output: {log}",
        )
