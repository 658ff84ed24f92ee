"""A running program: its streams, and the end of its process tree."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError, VerifierError
from nemo_gym.isolation.confinement import Isolation, Launch
from nemo_gym.isolation.execution import (
    ConfinedRunner,
    Ending,
    IsolationKind,
    SandboxLimits,
)
from nemo_gym.processes.process_tree import list_descendants
from tests.isolation.confined import PYTHON, make_sandbox, run
from tests.waiting import is_running, until


async def test_children_end_with_the_program(sandbox: ConfinedRunner) -> None:
    async with sandbox.open(
        (*PYTHON, "import os, time; os.fork(); print('up', flush=True); time.sleep(60)")
    ) as process:
        assert await process.read_line(10) == b"up\n"
        tree = [process.pid, *list_descendants(process.pid)]
        assert len(tree) > 1
    await until(lambda: not any(map(is_running, tree)))
    assert list(list_descendants(tree[0])) == [], "a process that has ended has no children"


async def test_a_surviving_child_does_not_delay_the_result(sandbox: ConfinedRunner) -> None:
    code = "import os, time\nif os.fork() == 0: time.sleep(30)\nprint('done')"
    done = await run(sandbox, code)
    assert (done.stdout, done.ending) == (b"done\n", Ending.EXITED)
    assert done.seconds < 30


async def test_output_can_be_read_line_by_line(sandbox: ConfinedRunner) -> None:
    async with sandbox.open((*PYTHON, "print(input() * 2)")) as process:
        await process.send(b"ab\n")
        assert await process.read_line(10) == b"abab\n"
        assert await process.read_line(10) is None
        assert (process.ending, process.exit_status) == (Ending.EXITED, 0)


async def test_a_program_with_a_late_or_endless_line_is_killed(sandbox: ConfinedRunner) -> None:
    async with sandbox.open((*PYTHON, "import time; time.sleep(60)")) as process:
        assert await process.read_line(0.2) is None
        assert process.ending is Ending.TIMED_OUT
    endless = (*PYTHON, "import sys\nwhile True: sys.stdout.write('x' * 1000)")
    async with sandbox.open(endless, limits=SandboxLimits(output_bytes=10_000)) as process:
        assert await process.read_line(10) is None
        assert process.ending is Ending.OUTPUT_EXCEEDED


async def test_a_program_that_does_not_read_or_closes_its_output_is_killed(
    sandbox: ConfinedRunner,
) -> None:
    start = time.monotonic()
    async with sandbox.open((*PYTHON, "import time; time.sleep(60)")) as process:
        await process.send(bytes(5 << 20), 0.2)
        assert await process.read_line(10) is None
        assert process.ending is Ending.TIMED_OUT
    async with sandbox.open((*PYTHON, "import os, time; os.close(1); time.sleep(60)")) as process:
        assert await process.read_line(0.5) is None
        assert process.ending in (Ending.STOPPED, Ending.TIMED_OUT)
    assert time.monotonic() - start < 60


async def test_a_program_that_cannot_be_started_gives_a_retryable_failure(tmp_path: Path) -> None:
    launcher = tmp_path / "launcher"
    launcher.write_text("#!/bin/sh\nexit 0\n")
    launcher.chmod(0o755)

    def confine(program: Sequence[str], launch: Launch) -> list[str]:
        return [str(launcher), *program]

    way = Isolation(IsolationKind.BUBBLEWRAP, confine)
    sandbox = ConfinedRunner(probe=("true",), candidates=[way])
    await sandbox.isolation()
    launcher.unlink()
    with pytest.raises(VerifierError) as caught:
        await run(sandbox, "pass")
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("sandbox_failed", True)


async def test_a_signal_arrives_as_a_status_above_128() -> None:
    for kind in IsolationKind:
        try:
            sandbox = make_sandbox(kind)
            done = await run(sandbox, "import os; os.abort()")
        except (ConfigError, pytest.skip.Exception):
            continue
        assert done.exit_status == 128 + 6
