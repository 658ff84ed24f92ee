"""Interpreters from locks. `make test-foreign` builds those of our kinds; here a kind of our own has no packages."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.sources.foreign.kinds import KINDS, ForeignKind
from nemo_gym.sources.foreign.venvs import (
    Venvs,
    build_commands,
    check_lock,
    find_default_folder,
    is_ready,
    probe_python,
)

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
KIND = replace(KINDS["textarena"], name="nothing", pythons=(HERE,))


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the lock of `KIND`, which has no packages."""
    lock = tmp_path / "nothing.txt"
    lock.write_text("# nothing\n")
    monkeypatch.setattr(ForeignKind, "lock", property(lambda self: lock))
    return lock


def test_an_interpreter_is_built_once_and_found_by_its_lock(tmp_path: Path, locked: Path) -> None:
    said: list[str] = []
    venvs = Venvs(tmp_path / "venvs", said.append)
    with pytest.raises(ConfigError, match="gym env prefetch nothing"):
        venvs.find(KIND)
    python = venvs.build(KIND)
    assert venvs.build(KIND) == venvs.find(KIND) == python
    assert len(said) == 1
    prefix = subprocess.check_output([python, "-c", "import sys; print(sys.prefix)"], text=True)
    assert prefix.strip() == str(python.parents[1])
    locked.write_text("# another lock\n")
    with pytest.raises(ConfigError):
        venvs.find(KIND)


def test_a_build_that_was_interrupted_begins_anew(tmp_path: Path, locked: Path) -> None:
    venvs = Venvs(tmp_path / "venvs")
    python = venvs.build(KIND)
    (python.parents[1] / "nemo_gym_ready").unlink()
    assert not is_ready(python.parents[1])
    assert venvs.build(KIND) == python
    assert is_ready(python.parents[1])


def test_a_package_that_cannot_be_fetched_names_the_log(
    tmp_path: Path, locked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked.write_text(f"there-is-no-such-package==1.0 --hash=sha256:{'0' * 64}\n")
    for name in ("UV_OFFLINE", "PIP_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match="could not be installed") as caught:
        Venvs(tmp_path / "venvs").build(KIND)
    assert caught.value.failure.code == "environment_failed"
    assert "Full log: " in str(caught.value)


def test_a_kind_without_its_python_says_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tried python2\.1, python2\.2"):
        Venvs(tmp_path).find_python(replace(KIND, pythons=("2.1", "2.2")))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("textarena", "textarena is not pinned"),
        ("textarena>=0.7", "textarena>=0.7 is not pinned"),
        ("textarena==0.7.4", "textarena has no hash"),
        ("-e ../package", "-e is not pinned"),
        ("nemo_gym==0.2.0 --hash=sha256:00", "never imports the gym"),
        ("ors==0.1.9 --hash=sha256:00", "map service"),
    ],
)
def test_a_lock_that_does_not_hold_its_packages_is_refused(line: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        check_lock(line + "\n", KIND)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_our_locks_pin_everything(kind: ForeignKind) -> None:
    text = kind.lock.read_text()
    check_lock(text, kind)
    assert f"\n{kind.package}==" in f"\n{text}"


def test_pip_installs_where_uv_is_not(tmp_path: Path, locked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    create, install = build_commands("/python", tmp_path / "venv", locked)
    assert create == ["/python", "-m", "venv", str(tmp_path / "venv")]
    assert "--require-hashes" in install
    assert ":all:" in " ".join(install)


def test_an_interpreter_is_probed_by_running_it() -> None:
    assert probe_python(["there-is-no-such-program"], HERE) is None
    assert probe_python(["false"], HERE) is None
    assert probe_python([sys.executable], HERE)


def test_the_folder_of_a_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert find_default_folder() == tmp_path / "nemo_gym" / "environments"
