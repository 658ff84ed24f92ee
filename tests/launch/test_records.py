from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.records import (
    GymRecord,
    Registry,
    RunRecord,
    ServerRecord,
    default_registry_folder,
    remove_discovery,
    write_discovery,
)
from nemo_gym.paths import DISCOVERY_FILE


def a_run(
    pid: int | None = None, port: int = 11000, started_at: str = "2026-01-01T00:00:00+00:00"
) -> RunRecord:
    return RunRecord(pid or os.getpid(), "token", started_at, f"http://127.0.0.1:{port}")


def a_gym(run: RunRecord) -> GymRecord:
    server = ServerRecord(
        "env", "resources_servers", "env", 0, "http://127.0.0.1:1", "ready", 17, 0, "env.log"
    )
    return GymRecord(run, "/somewhere", (server,))


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry")
    registry.write(a_gym(a_run()))
    assert registry.running() == [a_gym(a_run())]
    (path,) = registry.folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert registry.folder.stat().st_mode & 0o777 == 0o700


def test_two_gyms_of_one_process_have_two_records_oldest_first(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry")
    older = a_gym(a_run(port=1, started_at="2026-01-01T00:00:00+00:00"))
    newer = a_gym(a_run(port=2, started_at="2026-01-02T00:00:00+00:00"))
    registry.write(newer)
    registry.write(older)
    assert registry.running() == [older, newer]
    registry.remove(older.run)
    assert registry.running() == [newer]


def test_the_record_of_a_dead_launcher_is_removed(tmp_path: Path, dead_pid: int) -> None:
    registry = Registry(tmp_path / "registry")
    registry.write(a_gym(a_run(dead_pid)))
    assert registry.running() == []
    assert list(registry.folder.iterdir()) == []


def test_a_folder_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir(mode=0o755)
    with pytest.raises(LaunchError, match="open to others"):
        Registry(tmp_path / "registry").write(a_gym(a_run()))


def test_the_registry_is_in_the_runtime_folder_or_in_one_of_this_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_registry_folder() == tmp_path / "nemo_gym"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert default_registry_folder().name == f"nemo_gym-{os.getuid()}"


def test_replacing_the_file_of_a_running_gym_is_reported(tmp_path: Path, dead_pid: int) -> None:
    write_discovery(tmp_path, {}, a_run(os.getppid()))
    assert write_discovery(tmp_path, {}, a_run()) == os.getppid()
    write_discovery(tmp_path, {}, a_run(dead_pid))
    assert write_discovery(tmp_path, {}, a_run()) is None
    assert write_discovery(tmp_path, {}, a_run()) is None


def test_a_gym_removes_only_its_own_file(tmp_path: Path) -> None:
    write_discovery(tmp_path, {}, a_run(os.getppid()))
    remove_discovery(tmp_path, a_run())
    assert (tmp_path / DISCOVERY_FILE).exists()
    remove_discovery(tmp_path, a_run(os.getppid()))
    assert not (tmp_path / DISCOVERY_FILE).exists()


def test_a_damaged_discovery_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / DISCOVERY_FILE).write_text("{ not: yaml")
    assert write_discovery(tmp_path, {}, a_run()) is None
    remove_discovery(tmp_path, a_run())
    assert not (tmp_path / DISCOVERY_FILE).exists()
