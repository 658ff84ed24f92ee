"""Containers of a process that was killed, by an engine that is a script."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from nemo_gym import PARENT_DIR
from nemo_gym.sandbox.providers.leftovers import OWNER_LABEL, LeftoverRemover
from tests.waiting import until, until_gone

ENGINE = """#!/bin/sh
echo "$@" >> {log}
if [ "$1" = ps ]; then echo one; echo two; fi
"""
OWNER = """
import sys, time
from nemo_gym.sandbox.providers.leftovers import LeftoverRemover
remover = LeftoverRemover({engine!r}, ["rm", "--force"])
print(*remover.labels.values(), remover._program.process.pid, flush=True)
{end}
"""


def engine_in(folder: Path) -> tuple[Path, Path]:
    """An engine with two containers, and the file in which it logs its calls."""
    program, log = folder / "engine", folder / "log"
    program.write_text(ENGINE.format(log=log))
    program.chmod(0o755)
    return program, log


async def owner_that(end: str, engine: Path) -> tuple[asyncio.subprocess.Process, str, int]:
    """A process that has a remover: the process, the value of its label, and the pid of the remover."""
    program = OWNER.format(engine=str(engine), end=end)
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, cwd=PARENT_DIR
    )
    assert owner.stdout is not None
    label, pid = (await owner.stdout.readline()).decode().split()
    return owner, label, int(pid)


async def test_the_containers_of_a_killed_process_are_removed_more_than_once(tmp_path: Path) -> None:
    engine, log = engine_in(tmp_path)
    owner, label, remover = await owner_that("time.sleep(600)", engine)
    os.kill(owner.pid, signal.SIGKILL)
    await owner.wait()
    # A call of the engine that outlives the process may make a container after the first search.
    await until(lambda: log.exists() and log.read_text().count("rm --force one two\n") >= 2)
    assert log.read_text().startswith(
        f"ps --all --quiet --filter label={OWNER_LABEL}={label}\nrm --force one two\n"
    )
    os.kill(remover, signal.SIGKILL)


async def test_a_process_that_ends_by_itself_waits_for_one_search(tmp_path: Path) -> None:
    engine, log = engine_in(tmp_path)
    owner, _, remover = await owner_that("sys.exit()", engine)
    assert await owner.wait() == 0
    await until_gone(remover)
    assert log.read_text().count("rm --force one two\n") == 1


async def test_a_process_that_has_removed_its_containers_leaves_nothing_to_do(tmp_path: Path) -> None:
    engine, log = engine_in(tmp_path)
    remover = LeftoverRemover(str(engine), ["rm", "--force"])
    remover.close()
    remover.close()
    assert remover._program.process.returncode == 0
    assert not log.exists()


async def test_an_engine_that_fails_is_asked_again(tmp_path: Path) -> None:
    engine, log = engine_in(tmp_path)
    engine.write_text(f"#!/bin/sh\necho call >> {log}\nexit 1\n")
    owner, _, remover = await owner_that("time.sleep(600)", engine)
    os.kill(owner.pid, signal.SIGKILL)
    await owner.wait()
    await until(lambda: log.exists() and len(log.read_text().splitlines()) >= 2)
    os.kill(remover, signal.SIGKILL)
