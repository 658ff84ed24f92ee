from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from nemo_gym.discovery_files import DISCOVERY_FILE, NO_NAME, discovery_names, read_discovery
from nemo_gym.failures import ConfigError
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


def a_run(pid: int | None = None, port: int = 11000, started_at: str | None = None) -> RunRecord:
    started_at = started_at or datetime.now(UTC).isoformat()
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
    gym = replace(a_gym(a_run()), name="mine")
    registry.write(gym)
    assert registry.list_running() == [gym]
    (path,) = registry.folder.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert registry.folder.stat().st_mode & 0o777 == 0o700


def test_two_gyms_of_one_process_have_two_records_oldest_first(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "registry")
    older = a_gym(a_run(port=1, started_at="2026-01-01T00:00:00+00:00"))
    newer = a_gym(a_run(port=2, started_at="2026-01-02T00:00:00+00:00"))
    registry.write(newer)
    registry.write(older)
    assert registry.list_running() == [older, newer]
    registry.remove(older.run)
    assert registry.list_running() == [newer]


def test_the_record_of_a_dead_launcher_is_removed(tmp_path: Path, dead_pid: int) -> None:
    registry = Registry(tmp_path / "registry")
    registry.write(a_gym(a_run(dead_pid)))
    assert registry.list_running() == []
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


def test_a_second_gym_of_a_folder_gets_a_number_as_its_name(tmp_path: Path) -> None:
    assert write_discovery(tmp_path, {"a": 1}, a_run(port=1)) == NO_NAME
    assert write_discovery(tmp_path, {"a": 2}, a_run(os.getppid(), port=2)) == "2"
    assert write_discovery(tmp_path, {"a": 3}, a_run(port=3)) == "3"
    assert discovery_names(tmp_path) == [NO_NAME, "2", "3"]
    assert [(read_discovery(tmp_path, name) or {})["a"] for name in discovery_names(tmp_path)] == [1, 2, 3]


def test_a_gym_has_the_name_that_it_was_given_even_alone(tmp_path: Path) -> None:
    assert write_discovery(tmp_path, {}, a_run(), "mine") == "mine"
    assert write_discovery(tmp_path, {}, a_run(port=2)) == NO_NAME


def test_only_the_name_of_a_running_gym_is_taken(tmp_path: Path, dead_pid: int) -> None:
    write_discovery(tmp_path, {}, a_run(dead_pid), "mine")
    write_discovery(tmp_path, {}, a_run(), "mine")
    with pytest.raises(
        ConfigError, match=f"pid {os.getpid()} in {tmp_path} has the discovery name 'mine' already"
    ):
        write_discovery(tmp_path, {}, a_run(port=2), "mine")


def test_a_killed_gym_leaves_no_name_behind(tmp_path: Path, dead_pid: int) -> None:
    write_discovery(tmp_path, {}, a_run(), "alive")
    for name in (None, "mine"):
        write_discovery(tmp_path, {}, a_run(dead_pid), name)
    assert write_discovery(tmp_path, {}, a_run(port=2)) == NO_NAME
    assert discovery_names(tmp_path) == [NO_NAME, "alive"]


def test_a_pid_that_is_used_again_is_no_running_gym(tmp_path: Path) -> None:
    write_discovery(tmp_path, {}, a_run(started_at="2001-01-01T00:00:00+00:00"))
    assert write_discovery(tmp_path, {}, a_run(port=2)) == NO_NAME


def test_gyms_that_start_at_once_get_different_names(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        ports = range(1, 17)
        names = list(threads.map(lambda port: write_discovery(tmp_path, {}, a_run(port=port)), ports))
    assert sorted(names) == sorted([NO_NAME, *map(str, range(2, 17))])


def test_a_gym_removes_only_its_own_file(tmp_path: Path) -> None:
    write_discovery(tmp_path, {}, a_run(os.getppid()))
    write_discovery(tmp_path, {}, a_run(port=2))
    remove_discovery(tmp_path, a_run())
    assert discovery_names(tmp_path) == [NO_NAME, "2"]
    remove_discovery(tmp_path, a_run(port=2))
    assert discovery_names(tmp_path) == [NO_NAME]
    remove_discovery(tmp_path, a_run(os.getppid()))
    assert discovery_names(tmp_path) == []


def test_a_damaged_discovery_file_is_replaced(tmp_path: Path) -> None:
    (tmp_path / DISCOVERY_FILE).write_text("{ not: yaml")
    assert write_discovery(tmp_path, {}, a_run()) == NO_NAME
    remove_discovery(tmp_path, a_run())
    assert not (tmp_path / DISCOVERY_FILE).exists()
