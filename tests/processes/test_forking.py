"""Forked children: descriptors, titles, preloaded modules, and the end of all."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from nemo_gym.processes.fork_server import ForkServer
from tests.processes.forked import code_of
from tests.waiting import until, until_gone, wait_until_gone

PARENT = """
import os, sys, time
from nemo_gym.processes.fork_server import ForkServer
server = ForkServer()
child = server.fork("child", "os:execv", ("/bin/sh", ["sh", "-c", "sleep 300 & sleep 300"]), descriptors={})
if sys.argv[1] == "fork" and os.fork() == 0:
    os.close(1)
    time.sleep(20)
import asyncio
print(server.start(), asyncio.run(child.wait_for_start()), flush=True)
time.sleep(300)
"""


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
    child = server.fork("child", "os:execv", ("/bin/sh", ["sh", "-c", script]), descriptors={})
    await until(pid_file.exists)
    child.signal(signal.SIGKILL)
    assert await child.wait_for_end() == -signal.SIGKILL
    await until_gone(int(pid_file.read_text()))
    child.signal(signal.SIGTERM)


@pytest.mark.parametrize("then", ["", "fork"])
def test_everything_ends_with_a_parent_that_is_killed(then: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, then], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    for pid in pids:
        wait_until_gone(pid)
