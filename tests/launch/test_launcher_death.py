"""No process of a gym outlives its launcher, however that dies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import is_running, wait_until_gone

REPOSITORY = Path(__file__).resolve().parents[2]
LAUNCHER = """
import asyncio, json, os, signal, sys
from pathlib import Path
from nemo_gym.launch.gym import launch
from tests.launch.small_servers import STUBBORN, WITH_DAEMON, Workbench, config_of

async def main():
    bench = Workbench(Path(sys.argv[1]))
    config = config_of(bench.instance("polite"), bench.instance("stubborn", STUBBORN + WITH_DAEMON))
    options = bench.options(forks=sys.argv[2] == "forked")
    async with launch(config, options) as gym:
        await gym.wait_ready()
        if sys.argv[3] == "fork" and os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(5)"])
        pids = [server.pid for server in gym.servers]
        pids.append(int((bench.folder / "stubborn" / "daemon.pid").read_text()))
        print(json.dumps(pids), flush=True)
        await asyncio.sleep(60)

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # which `nohup` has what it runs ignore
asyncio.run(main())
"""


def start_launcher(
    folder: Path, how: str = "forked", then: str = ""
) -> tuple[subprocess.Popen[bytes], list[int]]:
    """A launcher with two ready servers, and the pids of all its descendants."""
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(folder), how, then], stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    assert process.stdout is not None
    pids: list[int] = json.loads(process.stdout.readline())
    process.stdout.close()
    return process, pids


@pytest.mark.parametrize("how", ["forked", "executed"])
def test_killing_the_launcher_ends_every_server_and_its_descendants(how: str, tmp_path: Path) -> None:
    process, pids = start_launcher(tmp_path, how)
    assert all(is_running(pid) for pid in pids)
    process.kill()
    process.wait()
    for pid in pids:
        wait_until_gone(pid)


def test_a_child_of_the_launcher_that_lives_on_does_not_keep_the_servers_alive(tmp_path: Path) -> None:
    process, pids = start_launcher(tmp_path, then="fork")
    process.kill()
    process.wait()
    for pid in pids:
        wait_until_gone(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_the_program_does_not_handle_ends_the_servers_too(number: int, tmp_path: Path) -> None:
    process, pids = start_launcher(tmp_path)
    process.send_signal(number)
    assert process.wait() == -number
    for pid in pids:
        wait_until_gone(pid)
