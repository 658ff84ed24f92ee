"""Virtual environments for servers whose requirements the running interpreter does not meet.

The name nemo-gym is this gym in all of them: its metadata is there before packages are installed, and a constraint
excludes every other version, so that no requirement fetches another project's package of that name.

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
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from nemo_gym import CACHE_DIR, PARENT_DIR
from nemo_gym.launch import _logs as logs
from nemo_gym.launch._requirements import (
    OWN_NAME,
    Requirements,
    find_unsatisfied,
    own_requirements,
    read_requirements,
)
from nemo_gym.launch.errors import LaunchError
from nemo_gym.names import SERVER_KINDS

LINKED_PACKAGES = ("nemo_gym", *SERVER_KINDS)
"""Packages of this project, linked into every environment, so that it always uses those of this run."""
_READY_MARKER = "nemo_gym_ready"
_PROBE = "import nemo_gym.serving.base"

RunInstaller = Callable[[Sequence[str], Path, Path], None]
"""Runs a command in a folder and appends its output to a log. Raises `LaunchError` if it fails."""


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


@dataclass(frozen=True, slots=True)
class Environments:
    """Chooses the interpreter for a requirements file, and builds its environment if needed."""

    announce: Callable[[str], None]
    """Receives a line when an environment is built."""
    folder: Path = CACHE_DIR / "venvs"
    run: RunInstaller = run_logged
    """Tests replace it."""

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
        environment = self.folder / fingerprint([*lines, own_constraint()])
        with self._lock(environment):
            if not is_ready(environment):
                needing = f" for {path}" if path is not None else ""
                self.announce(
                    f"building an environment{needing}: {', '.join(unsatisfied)}; "
                    f"once, often in about a minute (log: {environment.with_suffix('.log')})"
                )
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
        constraints = environment.with_suffix(".constraints.txt")
        constraints.write_text(f"{own_constraint()}\n", encoding="utf-8")
        create, install = installer_commands(environment, listing, constraints)
        self.run(create, directory, log)
        declare_own_package(environment)
        self.run(install, directory, log)
        link_own_packages(environment)
        self.run([str(interpreter(environment)), "-c", _PROBE], directory, log)
        (environment / _READY_MARKER).touch()

    @contextlib.contextmanager
    def _lock(self, environment: Path) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
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


def installer_commands(environment: Path, listing: Path, constraints: Path) -> tuple[list[str], list[str]]:
    """Commands that create `environment`, and install the packages in `listing`, with uv if available, else pip."""
    python = str(interpreter(environment))
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    files = ["-r", str(listing), "-c", str(constraints)]
    if uv is not None:
        return (
            [uv, "venv", "--quiet", "--python", sys.executable, str(environment)],
            [uv, "pip", "install", "--quiet", "--python", python, *files],
        )
    return (
        [sys.executable, "-m", "venv", str(environment)],
        [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *files],
    )


def own_constraint() -> str:
    """The version of this gym, as a constraint for installers."""
    return f"{OWN_NAME}=={metadata.version(OWN_NAME)}"


def declare_own_package(environment: Path) -> None:
    """Make installers find this gym in `environment`. Its requirements are in the listing."""
    version = metadata.version(OWN_NAME)
    folder = _site_packages(environment) / f"nemo_gym-{version}.dist-info"
    folder.mkdir()
    text = f"Metadata-Version: 2.1\nName: {OWN_NAME}\nVersion: {version}\n"
    (folder / "METADATA").write_text(text, encoding="utf-8")
    (folder / "INSTALLER").write_text("nemo-gym\n", encoding="utf-8")
    (folder / "RECORD").write_text("", encoding="utf-8")


def _site_packages(environment: Path) -> Path:
    bases = {"base": str(environment), "platbase": str(environment)}
    return Path(sysconfig.get_path("purelib", "venv", vars=bases))


def link_own_packages(environment: Path) -> None:
    """Make this project's packages importable in `environment`."""
    site_packages = _site_packages(environment)
    for name in LINKED_PACKAGES:
        package = PARENT_DIR / name
        if package.is_dir():
            (site_packages / name).symlink_to(package, target_is_directory=True)
