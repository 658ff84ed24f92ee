"""Environments, with an installer that only creates folders."""

from __future__ import annotations

import sys
import threading
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from nemo_gym.launch.environments import (
    Environments,
    declare_own_package,
    fingerprint,
    installer_commands,
    interpreter,
    is_ready,
    own_constraint,
    run_logged,
)
from nemo_gym.launch.errors import LaunchError


class FolderInstaller:
    """Replaces uv and pip: `venv` creates the folder with a link to the running interpreter."""

    def __init__(self, failing: str = "", delay_s: float = 0) -> None:
        self.commands: list[list[str]] = []
        self._failing = failing
        self._delay_s = delay_s

    def __call__(self, command: Sequence[str], directory: Path, log: Path) -> None:
        self.commands.append(list(command))
        time.sleep(self._delay_s)
        if self._failing and self._failing in command:
            raise LaunchError("no such package", code="environment_failed")
        if "venv" in command:
            version = f"python{sys.version_info.major}.{sys.version_info.minor}"
            environment = Path(command[-1])
            (environment / "lib" / version / "site-packages").mkdir(parents=True)
            interpreter(environment).parent.mkdir()
            interpreter(environment).symlink_to(sys.executable)


def environments(folder: Path, installer: FolderInstaller, lines: list[str] | None = None) -> Environments:
    return Environments((lines if lines is not None else []).append, folder / "venvs", installer)


@pytest.fixture
def special(tmp_path: Path) -> Path:
    path = tmp_path / "server" / "requirements.txt"
    path.parent.mkdir()
    path.write_text("a-package-that-does-not-exist==1\n")
    return path


def test_a_server_with_met_requirements_runs_in_this_interpreter(tmp_path: Path) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("orjson\n-e nemo-gym[dev] @ ../../\n")
    installer = FolderInstaller()
    assert environments(tmp_path, installer).choose(path) is None
    assert installer.commands == []


def test_an_environment_links_this_projects_packages_and_is_probed(tmp_path: Path, special: Path) -> None:
    installer, lines = FolderInstaller(), list[str]()
    python = environments(tmp_path, installer, lines).choose(special)
    assert python is not None
    environment = Path(python).parent.parent
    (linked,) = environment.glob("lib/*/site-packages/nemo_gym")
    assert (linked / "failures.py").is_file()
    assert installer.commands[-1] == [python, "-c", "import nemo_gym.serving.base"]
    listing = environment.with_suffix(".txt").read_text().splitlines()
    assert "a-package-that-does-not-exist==1" in listing
    assert any(line.startswith("fastapi") for line in listing)
    assert lines == [
        f"building an environment for {special}: a-package-that-does-not-exist==1 (not installed); "
        f"once, often in about a minute (log: {environment.with_suffix('.log')})"
    ]


def test_the_name_nemo_gym_is_this_gym_in_a_built_environment(tmp_path: Path) -> None:
    """A package that requires nemo-gym gets this one, and a package that requires another version is refused."""
    build_wheel(tmp_path, "needs-the-gym", "nemo-gym")
    build_wheel(tmp_path, "needs-another", "nemo-gym>=99")
    environment = tmp_path / "environment"
    listing, constraints = tmp_path / "listing.txt", tmp_path / "constraints.txt"
    constraints.write_text(own_constraint())
    create, install = installer_commands(environment, listing, constraints)
    offline = [*install, "--no-index", "--find-links", str(tmp_path)]
    run_logged(create, tmp_path, tmp_path / "log")
    declare_own_package(environment)
    listing.write_text("needs-the-gym\n")
    run_logged(offline, tmp_path, tmp_path / "log")
    listing.write_text("needs-another\n")
    with pytest.raises(LaunchError, match="exit code"):
        run_logged(offline, tmp_path, tmp_path / "refused")
    assert "conflict" in (tmp_path / "refused").read_text()


def build_wheel(folder: Path, name: str, requires: str) -> None:
    """Write a wheel without code."""
    module = name.replace("-", "_")
    info = f"{module}-1.dist-info"
    with zipfile.ZipFile(folder / f"{module}-1-py3-none-any.whl", "w") as wheel:
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\nRequires-Dist: {requires}\n"
        wheel.writestr(f"{info}/METADATA", head)
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def test_an_environment_is_reused(tmp_path: Path, special: Path) -> None:
    installer = FolderInstaller()
    first = environments(tmp_path, installer).choose(special)
    built_by = len(installer.commands)
    assert environments(tmp_path, installer).choose(special) == first
    assert len(installer.commands) == built_by


def test_other_requirements_get_another_environment(tmp_path: Path, special: Path) -> None:
    installer = FolderInstaller()
    first = environments(tmp_path, installer).choose(special)
    special.write_text("a-package-that-does-not-exist==2\n")
    assert environments(tmp_path, installer).choose(special) != first


def test_an_incomplete_environment_is_rebuilt(tmp_path: Path, special: Path) -> None:
    with pytest.raises(LaunchError):
        environments(tmp_path, FolderInstaller(failing="-r")).choose(special)
    (torn,) = (path for path in (tmp_path / "venvs").iterdir() if path.is_dir())
    assert not is_ready(torn)
    (torn / "rubble").touch()
    assert environments(tmp_path, FolderInstaller()).choose(special) == str(interpreter(torn))
    assert is_ready(torn)
    assert not (torn / "rubble").exists()


def test_concurrent_users_of_an_environment_build_it_once(tmp_path: Path, special: Path) -> None:
    installer = FolderInstaller(delay_s=0.02)
    both = [
        threading.Thread(target=environments(tmp_path, installer).choose, args=(special,)) for _ in range(2)
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert sum("venv" in command for command in installer.commands) == 1


def test_the_fingerprint_depends_on_every_line() -> None:
    assert fingerprint(["a", "b"]) == fingerprint(["a", "b"])
    assert fingerprint(["a", "b"]) != fingerprint(["a"]) != fingerprint(["ab"])


def test_the_error_of_a_failed_command_has_its_last_lines(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('ERROR: no matching distribution'); raise SystemExit(3)"]
    with pytest.raises(LaunchError) as caught:
        run_logged(command, tmp_path, tmp_path / "build.log")
    assert caught.value.failure.message.startswith("ERROR: no matching distribution")
    assert "exit code 3" in caught.value.failure.message
    assert str(tmp_path / "build.log") in (caught.value.failure.remedy or "")
