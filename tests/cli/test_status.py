from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nemo_gym.cli.command import ExitCode
from nemo_gym.cli.status import COMMAND, show_status
from nemo_gym.launch.gym import launch
from nemo_gym.launch.records import GymRecord, Registry, RunRecord, ServerRecord
from nemo_gym.launch.sockets import HeldSocket, hold
from tests.launch.small_servers import Workbench, config_of


@pytest.fixture(autouse=True)
def runtime_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


@pytest.fixture
def silent() -> Iterator[HeldSocket]:
    """A bound socket without a server."""
    held = hold("127.0.0.1", 0, holder_of="test")
    yield held
    held.close()


def a_gym(*urls: str) -> GymRecord:
    server = ServerRecord("env", "resources_servers", "env", 0, "", "ready", os.getpid(), 0, "env.log")
    run = RunRecord(os.getpid(), "very-secret-token", "2026-01-01T00:00:00+00:00", "http://127.0.0.1:1")
    return GymRecord(run, "/somewhere", tuple(replace(server, url=url) for url in urls))


def test_without_a_gym_the_command_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert COMMAND.run([], show_status) == ExitCode.FATAL
    assert capsys.readouterr().out == "no gym is running; start one with gym env start (ng_run)\n"
    assert COMMAND.run(["+json=true"], show_status) == ExitCode.FATAL
    assert json.loads(capsys.readouterr().out) == []


def test_a_silent_server_is_shown_and_is_no_success(
    silent: HeldSocket, capsys: pytest.CaptureFixture[str]
) -> None:
    Registry().write(a_gym(silent.url))
    assert COMMAND.run(["+timeout_s=0.05"], show_status) == ExitCode.FATAL
    shown = capsys.readouterr().out
    assert f"gym of pid {os.getpid()} in /somewhere" in shown
    assert "silent" in shown


def test_a_piped_table_has_the_width_that_is_asked_for(
    silent: HeldSocket, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    Registry().write(a_gym(silent.url))
    COMMAND.run(["+timeout_s=0.05"], show_status)
    table = capsys.readouterr().out.splitlines()[1:]
    assert max(map(len, table)) <= 70


def test_the_output_has_no_token(silent: HeldSocket, capsys: pytest.CaptureFixture[str]) -> None:
    Registry().write(a_gym(silent.url))
    COMMAND.run(["+timeout_s=0.05", "+json=true"], show_status)
    shown = capsys.readouterr().out
    assert json.loads(shown)[0]["servers"][0]["answers"] is False
    assert "very-secret-token" not in shown


async def test_the_gym_of_this_folder_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    bench = Workbench(tmp_path / "gym")
    bench.folder.mkdir()
    monkeypatch.chdir(bench.folder)
    options = bench.options(registry=Registry())
    async with launch(config_of(bench.instance("env")), options) as gym:
        await gym.wait_ready()
        assert await asyncio.to_thread(COMMAND.run, ["--json"], show_status) == ExitCode.COMPLETE
        (shown,) = json.loads(capsys.readouterr().out)
        assert shown["head"] == gym.head_url
        assert {server["name"]: server["state"] for server in shown["servers"]} == {
            "head_server": "ready",
            "env": "ready",
        }
        assert shown["servers"][1]["figures"] == {
            "requests": 1,
            "errors": 2,
            "in_flight": 3,
            "seconds": 0.0,
        }
        assert shown["servers"][1]["pid"] == gym.servers[1].pid


async def test_a_gym_of_another_folder_is_listed_and_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    bench = Workbench(tmp_path / "gym")
    empty = tmp_path / "empty"
    for folder in (bench.folder, empty):
        folder.mkdir()
    monkeypatch.chdir(empty)
    async with launch(config_of(bench.instance("env")), bench.options(registry=Registry())) as gym:
        await gym.wait_ready()
        assert await asyncio.to_thread(COMMAND.run, ["--json"], show_status) == ExitCode.FATAL
        printed = capsys.readouterr()
        (shown,) = json.loads(printed.out)
        assert shown["directory"] == str(bench.folder)
        assert "no gym runs in this folder" in printed.err
