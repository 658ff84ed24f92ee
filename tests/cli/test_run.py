"""`ng_run` as a process: output, exit and files."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.config.small_gym import APPS
from tests.launch.small_servers import write_server
from tests.waiting import wait_until_gone

PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)  # shells ignore it for background processes
from nemo_gym.cli.run import main
main()
"""
COMMAND = [sys.executable, "-c", PROGRAM, "+config_paths=[gym.yaml]"]
FREE_HEAD = "+head_server.port=0"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A working folder with a small resources server and a configuration for it."""
    (tmp_path / "runtime").mkdir(mode=0o700)
    write_server(tmp_path / "resources_servers" / "small")
    (tmp_path / "gym.yaml").write_text(
        "small_env:\n  resources_servers:\n    small: {entrypoint: app.py, domain: other, verified: false}\n"
    )
    return tmp_path


def environment(project: Path) -> dict[str, str]:
    return {**os.environ, "XDG_RUNTIME_DIR": str(project / "runtime")}


@contextlib.contextmanager
def running(project: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The command with JSON events, and its `ready` event; killed at the end if it still runs."""
    process = subprocess.Popen(
        [*COMMAND, FREE_HEAD, "+json=true", *arguments],
        cwd=project,
        env=environment(project),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        events = []
        for line in process.stdout:
            events.append(json.loads(line))
            if events[-1]["event"] == "ready":
                pids = {event["pid"] for event in events if event.get("state") == "ready"}
                yield process, {**events[-1], "pids": pids}
                break
        else:
            pytest.fail(f"it never got ready: {events} {process.communicate()}")
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_everything_and_is_no_error(project: Path, number: int) -> None:
    with running(project) as (process, ready):
        assert set(ready["servers"]) == {"small_env"}
        assert (project / ".nemo_gym_global_config.yaml").exists()
        assert (Path(ready["logs"]) / "small_env.log").read_text() == "serving\n"
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stdout is not None
        last = [json.loads(line)["event"] for line in process.stdout][-1]
        assert last == "stopped"
    for pid in ready["pids"]:
        wait_until_gone(pid)
    assert not (project / ".nemo_gym_global_config.yaml").exists()
    assert list((project / "runtime" / "nemo_gym").iterdir()) == []


def test_killing_the_command_leaves_no_server_behind(project: Path) -> None:
    with running(project) as (process, ready):
        process.kill()
        process.wait()
        for pid in ready["pids"]:
            wait_until_gone(pid)


def run_to_its_end(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=project,
        env=environment(project),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_server_that_does_not_start_is_reported_with_its_root_cause(project: Path) -> None:
    (project / "resources_servers" / "small" / "app.py").write_text("import not_there")
    done = run_to_its_end(project, FREE_HEAD)
    assert done.returncode == 1
    complaint = done.stderr.splitlines()
    assert complaint[:2] == [
        "ng_run: warning: the options of these servers are not checked: small_env (app.py does not end with "
        "`MyServer.run_webserver()`)",
        "ng_run: ModuleNotFoundError: No module named 'not_there'",
    ]
    assert "`small_env` died 3 times in a row" in done.stderr
    assert str(project / ".nemo_gym" / "logs") in done.stderr
    assert "Traceback" not in done.stderr


def test_code_that_cannot_be_imported_is_reported_before_anything_starts(project: Path) -> None:
    app = project / "resources_servers" / "small" / "app.py"
    app.write_text(f"import not_there\n{APPS['resources_servers/weather']}")
    done = run_to_its_end(project, FREE_HEAD)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "ng_run: 1 problem",
        "resources_servers/small/app.py:1",
        "The code fails: ModuleNotFoundError: No module named 'not_there'.",
        "-> Add not_there, or the package that has it, to requirements.txt of the server, or correct the name.",
    ]
    assert not (project / ".nemo_gym").exists()


def test_a_taken_port_is_reported_before_anything_starts(project: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_to_its_end(project, f"+head_server.port={taken.getsockname()[1]}")
    assert done.returncode == 2
    assert f"is taken by pid {os.getpid()} (" in done.stderr
    assert not (project / ".nemo_gym").exists()


def test_a_dry_run_prepares_and_starts_nothing(project: Path) -> None:
    (project / "resources_servers" / "small" / "app.py").write_text("raise RuntimeError('it was started')")
    done = run_to_its_end(project, FREE_HEAD, "+dry_run=true")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"small_env: {project / 'resources_servers' / 'small' / 'app.py'} by {sys.executable}"
    ]
    assert not (project / ".nemo_gym").exists()


def test_the_command_declares_itself_for_help() -> None:
    from nemo_gym.cli import run

    assert run.COMMAND is run.command()
    assert run.COMMAND.name == "ng_run"
    assert "json" in run.COMMAND.help()
    with pytest.raises(AttributeError):
        _ = run.no_such_name


def test_the_module_loads_nothing_that_the_fork_server_would_wait_for() -> None:
    heavy = ["pydantic", "asyncio", "yaml", "aiohttp", "rich", "psutil", "nemo_gym.config"]
    program = f"import sys, nemo_gym.cli.run; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
