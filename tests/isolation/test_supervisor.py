"""No process outlives its sandbox, however it detaches itself."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

import pytest

from nemo_gym.isolation import _supervisor
from nemo_gym.isolation.confinement import isolations
from nemo_gym.isolation.execution import ConfinedRunner, Ending, IsolationKind, SandboxLimits
from nemo_gym.isolation.leftovers import open_folders
from tests.isolation.confined import (
    DOUBLE_FORK,
    INSTALLATION,
    PYTHON,
    make_sandbox,
    processes_of,
    run,
    sleepers,
)
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
from nemo_gym.isolation.leftovers import open_folders
from tests.isolation.confined import DOUBLE_FORK, INSTALLATION, PYTHON, make_sandbox
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


WRITE = """
import os, pathlib, socket
for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock", PLACE):
    try:
        place = pathlib.Path(folder) / f"NAME_{os.getpid()}"
        (place / "below").mkdir(parents=True)
        (place / "note").write_text("read me")
        (place / "note").chmod(0o644)
        socket.socket(socket.AF_UNIX).bind(str(place / "socket"))
    except OSError:
        pass
print("written", flush=True)
input()
"""
LOOK = """
import os
print([name for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock") if os.path.isdir(folder)
    for name in os.listdir(folder) if "NAME" in name])
"""


def left_on_this_machine(name: str, *more: Path) -> list[Path]:
    folders = [Path(folder) for folder in ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")]
    return [path for folder in (*folders, *more) if folder.is_dir() for path in folder.glob(f"*{name}*")]


def without_own_folders(kind: IsolationKind) -> ConfinedRunner:
    """A runner for a kernel that lets a gym make no mount namespace."""
    ways = isolations(INSTALLATION.folders, python=INSTALLATION, allow_unsandboxed=True)
    weaker = [way.drop_own_folders() for way in ways if way.kind is kind]
    if not weaker or weaker[0] is None:
        pytest.skip(f"this machine has no {kind}")
    return ConfinedRunner(probe=(*PYTHON, "pass"), python=INSTALLATION, candidates=[weaker[0]])


async def test_programs_neither_see_nor_leave_the_files_of_others(
    sandbox: ConfinedRunner, tmp_path: Path
) -> None:
    opened = Path(tempfile.mkdtemp(dir="/var")) if os.geteuid() == 0 else tmp_path
    opened.chmod(0o1777)
    open_folders.cache_clear()
    name = f"of_{os.getpid()}_{opened.name}"
    write = WRITE.replace("NAME", name).replace("PLACE", repr(str(opened)))
    try:
        async with sandbox.open((*PYTHON, write)) as process:
            assert await process.read_line(60) == b"written\n"
            assert left_on_this_machine(name, opened) == []
            assert (await run(sandbox, LOOK.replace("NAME", name))).stdout == b"[]\n"
        assert (await run(sandbox, LOOK.replace("NAME", name))).stdout == b"[]\n"
        assert left_on_this_machine(name, opened) == []
    finally:
        open_folders.cache_clear()
        if opened != tmp_path:
            opened.rmdir()


@pytest.mark.skipif(os.geteuid() != 0, reason="programs have users of their own only if the gym runs as root")
async def test_without_own_folders_the_files_of_a_user_are_deleted_at_its_end() -> None:
    sandbox = without_own_folders(IsolationKind.OWN_USER)
    assert "other programs can read the files that it writes there" in await sandbox.describe()
    name = f"shared_{os.getpid()}"
    async with sandbox.open((*PYTHON, WRITE.replace("NAME", name).replace("PLACE", "'/tmp'"))) as process:
        assert await process.read_line(60) == b"written\n"
        assert left_on_this_machine(name) != []
    assert left_on_this_machine(name) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="programs have users of their own only if the gym runs as root")
@pytest.mark.parametrize("place", [".", "/tmp"])
async def test_without_own_folders_the_number_of_files_is_bounded(place: str) -> None:
    code = f"import os, time\nfor i in range(1000): os.mkdir(f'{place}/bounded_{{os.getpid()}}_{{i}}')\ntime.sleep(100)"
    done = await run(
        without_own_folders(IsolationKind.OWN_USER), code, limits=SandboxLimits(wall_s=90, files=500)
    )
    assert done.ending is Ending.OUTPUT_EXCEEDED
    assert left_on_this_machine("bounded_") == []


async def test_files_in_a_workspace_are_bounded_by_number(sandbox: ConfinedRunner) -> None:
    code = "import os, time\nfor i in range(1000): os.mkdir(str(i))\ntime.sleep(100)"
    async with sandbox.workspace() as workspace:
        done = await run(sandbox, code, limits=SandboxLimits(wall_s=90, files=500), workspace=workspace)
    assert done.ending is Ending.OUTPUT_EXCEEDED


async def test_a_program_inherits_no_descriptor(sandbox: ConfinedRunner) -> None:
    done = await run(sandbox, "import os; print(sorted(os.listdir('/proc/self/fd'), key=int))")
    assert done.stdout == b"['0', '1', '2', '3']\n", "the fourth lists the folder"
