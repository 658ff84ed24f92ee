"""No process outlives its sandbox, however it detaches itself."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from nemo_gym.isolation import _supervisor
from nemo_gym.isolation.execution import ConfinedRunner, Ending, IsolationKind, SandboxLimits
from tests.isolation.confined import DOUBLE_FORK, PYTHON, make_sandbox, processes_of, run, sleepers
from tests.waiting import until


async def test_a_child_of_a_child_ends_with_its_sandbox(sandbox: ConfinedRunner) -> None:
    seconds = str(7_000_000 + os.getpid())
    wait = "import time\nprint('up', flush=True)\ntime.sleep(100)"
    async with sandbox.open((*PYTHON, DOUBLE_FORK.replace("TIME", seconds) + wait)) as process:
        assert await process.read_line(30) == b"up\n"
        await until(lambda: sleepers(seconds))
    await until(lambda: not sleepers(seconds))


async def test_a_child_of_a_child_ends_with_its_program(sandbox: ConfinedRunner) -> None:
    seconds = str(8_000_000 + os.getpid())
    done = await run(sandbox, DOUBLE_FORK.replace("TIME", seconds))
    assert (done.ending, done.exit_status) == (Ending.EXITED, 0)
    await until(lambda: not sleepers(seconds))


GYM = """
import asyncio, sys
from tests.isolation.confined import DOUBLE_FORK, PYTHON, make_sandbox
from nemo_gym.isolation.confinement import IsolationKind

async def main():
    sandbox = make_sandbox(IsolationKind(sys.argv[1]))
    code = DOUBLE_FORK.replace("TIME", sys.argv[2]) + "import time; time.sleep(100)"
    async with sandbox.open((*PYTHON, code)):
        await asyncio.sleep(100)

asyncio.run(main())
"""


async def test_a_child_of_a_child_ends_with_a_killed_gym(sandbox: ConfinedRunner) -> None:
    seconds = str(9_000_000 + os.getpid())
    command = [sys.executable, "-c", GYM, str(await sandbox.isolation()), seconds]
    gym = await asyncio.create_subprocess_exec(*command, cwd=Path(__file__).parents[2])
    await until(lambda: sleepers(seconds))
    gym.kill()
    await gym.wait()
    await until(lambda: not sleepers(seconds))


@pytest.mark.skipif(os.geteuid() != 0, reason="programs have users of their own only if the gym runs as root")
async def test_a_fork_bomb_with_a_user_of_its_own_is_killed_whole() -> None:
    sandbox = make_sandbox(IsolationKind.OWN_USER)
    bomb = (
        "import os\nprint(os.getuid(), flush=True)\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    )
    async with sandbox.open((*PYTHON, bomb), limits=SandboxLimits(wall_s=60)) as process:
        user = int(await process.read_line(30) or b"")
        await asyncio.sleep(0.2)
    await until(lambda: not processes_of(user))


def write_supervisor_without_sweeps(folder: Path) -> Path:
    file = folder / "supervisor.py"
    file.write_text(Path(_supervisor.__file__).read_text().replace("_SWEEPS = 200", "_SWEEPS = 0"))
    assert file.read_text().count("_SWEEPS = 0") == 1
    return file


@pytest.mark.skipif(os.geteuid() != 0, reason="programs have users of their own only if the gym runs as root")
async def test_all_processes_of_a_user_are_killed_at_once_if_sweeps_do_not_suffice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_supervisor, "__file__", str(write_supervisor_without_sweeps(tmp_path)))
    seconds = str(6_000_000 + os.getpid())
    done = await run(make_sandbox(IsolationKind.OWN_USER), DOUBLE_FORK.replace("TIME", seconds))
    assert (done.ending, done.exit_status) == (Ending.EXITED, 0)
    await until(lambda: not sleepers(seconds))
