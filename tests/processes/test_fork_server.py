from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nemo_gym.launch.early_start import early_fork_server, start_fork_server
from nemo_gym.processes.fork_server import ForkedProcess, ForkServer, ForkServerGone
from tests.waiting import until, until_gone, wait_until_gone

PARENT = """
import os, sys, time
from nemo_gym.processes.fork_server import ForkServer
server = ForkServer()
child = server.fork("child", command=["/bin/sh", "-c", "sleep 300 & sleep 300"], descriptors={})
if sys.argv[1] == "fork" and os.fork() == 0:
    os.close(1)
    time.sleep(20)
import asyncio
print(server.start(), asyncio.run(child.started()), flush=True)
time.sleep(300)
"""


@pytest.fixture
def server() -> Iterator[ForkServer]:
    with closing(ForkServer()) as server:
        yield server


def code_of(child: ForkedProcess) -> int:
    return asyncio.run(child.ended())


def test_a_child_calls_its_function_and_its_exit_code_is_known(server: ForkServer) -> None:
    assert code_of(server.fork("child", "builtins:print", ("x",), descriptors={})) == 0
    assert code_of(server.fork("child", "sys:exit", (3,), descriptors={})) == 3
    assert code_of(server.fork("child", "os:abort", descriptors={})) == -signal.SIGABRT


def test_a_child_has_the_descriptors_that_it_was_given_and_no_others(
    server: ForkServer, tmp_path: Path
) -> None:
    code = "import os; os.write(5, ' '.join(sorted(os.listdir('/proc/self/fd'))).encode())"
    with (tmp_path / "out").open("wb") as out:
        assert code_of(server.fork("child", "builtins:exec", (code,), descriptors={5: out.fileno()})) == 0
    assert (tmp_path / "out").read_text() == "0 1 2 3 5"  # 3 is the listing's own


def test_a_child_leads_a_session_under_its_title(server: ForkServer, tmp_path: Path) -> None:
    code = "import os; print(os.getsid(0) == os.getpid(), open('/proc/self/comm').read().strip())"
    with (tmp_path / "out").open("wb") as out:
        code_of(server.fork("a_title_of_20_letters", "builtins:exec", (code,), descriptors={1: out.fileno()}))
    assert (tmp_path / "out").read_text() == "True a_title_of_20_l\n"


def test_preloaded_modules_are_in_every_child(tmp_path: Path) -> None:
    code = "import sys; sys.exit('colorsys' in sys.modules)"
    with closing(ForkServer("colorsys")) as server:
        assert [
            code_of(server.fork("child", "builtins:exec", (code,), descriptors={})) for _ in range(2)
        ] == [
            1,
            1,
        ]


def test_a_failed_preload_is_logged_and_children_start(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with closing(ForkServer("a_module_that_is_not_there")) as server:
        assert code_of(server.fork("child", "builtins:print", descriptors={})) == 0
    assert "a_module_that_is_not_there cannot be preloaded" in capfd.readouterr().err


async def test_a_signal_reaches_a_child_and_a_kill_its_whole_group(
    server: ForkServer, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    script = f"sleep 300 & echo $! > {pid_file}.new; mv {pid_file}.new {pid_file}; wait"
    child = server.fork("child", command=["/bin/sh", "-c", script], descriptors={})
    await until(pid_file.exists)
    child.signal(signal.SIGKILL)
    assert await child.ended() == -signal.SIGKILL
    await until_gone(int(pid_file.read_text()))
    child.signal(signal.SIGTERM)


async def test_children_die_with_a_killed_server_and_the_next_request_starts_another(
    server: ForkServer,
) -> None:
    child = server.fork("child", "time:sleep", (300,), descriptors={})
    pid = await child.started()
    os.kill(server.start(), signal.SIGKILL)
    assert await child.ended() == -signal.SIGKILL
    await until_gone(pid)
    assert await server.fork("child", "sys:exit", (3,), descriptors={}).ended() == 3


def test_a_closed_server_forks_nothing() -> None:
    server = ForkServer()
    child = server.fork("child", "time:sleep", (300,), descriptors={})
    server.close()
    server.close()
    assert code_of(child) == -signal.SIGTERM
    with pytest.raises(ForkServerGone):
        server.fork("child", "builtins:print", descriptors={})


@pytest.mark.parametrize("then", ["", "fork"])
def test_everything_ends_with_a_parent_that_is_killed(then: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, then], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    for pid in pids:
        wait_until_gone(pid)


def test_a_preloaded_server_is_single_threaded() -> None:
    with closing(start_fork_server()) as server:
        assert code_of(server.fork("child", "builtins:print", descriptors={})) == 0
        assert len(os.listdir(f"/proc/{server.start()}/task")) == 1  # noqa: PTH208


def test_closing_a_server_without_children_is_immediate() -> None:
    with closing(start_fork_server()) as server:
        pid = server.start()
    wait_until_gone(pid)


def test_a_command_that_starts_no_server_gets_no_fork_server() -> None:
    for arguments in (["--help"], ["-h", "--help"], ["+config_paths=[a.yaml]", "+dry_run=true"]):
        with early_fork_server(arguments) as server:
            assert server is None
    with early_fork_server(["+config_paths=[a.yaml]"]) as server:
        assert server is not None
