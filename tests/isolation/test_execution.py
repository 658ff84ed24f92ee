"""Confined programs: their environment, their limits and their end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from nemo_gym.config.current import set_global_config_dict
from nemo_gym.failures import ConfigError
from nemo_gym.isolation import execution
from nemo_gym.isolation.confinement import MIB, Isolation, Launch, describe_reach, isolations
from nemo_gym.isolation.execution import (
    ConfinedRunner,
    Ending,
    IsolationKind,
    SandboxLimits,
    remove_workspace,
)
from nemo_gym.processes.process_tree import list_descendants
from tests.isolation.confined import INSTALLATION, PYTHON, make_sandbox, require_bubblewrap, run
from tests.waiting import is_running, until


async def test_input_output_and_status_pass_through(sandbox: ConfinedRunner) -> None:
    code = "import sys; print(sys.stdin.read().upper()); print('woe', file=sys.stderr); sys.exit(3)"
    done = await run(sandbox, code, stdin=b"hello")
    assert (done.stdout, done.stderr, done.exit_status) == (b"HELLO\n", b"woe\n", 3)
    assert done.ending is Ending.EXITED
    assert done.isolation is await sandbox.isolation()


async def test_a_program_does_not_see_the_gyms_environment(
    sandbox: ConfinedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    done = await run(sandbox, "import os; print(sorted(os.environ))")
    assert set(eval(done.stdout)) <= {"LC_CTYPE", "LD_LIBRARY_PATH", "PWD", "PYTHONHASHSEED"}


async def test_a_program_is_killed_at_its_wall_limit(sandbox: ConfinedRunner) -> None:
    done = await run(sandbox, "while True: pass", limits=SandboxLimits(wall_s=0.5))
    assert done.ending is Ending.TIMED_OUT


async def test_output_is_bounded(sandbox: ConfinedRunner) -> None:
    done = await run(
        sandbox, "while True: print('x' * 1000)", limits=SandboxLimits(wall_s=10, output_bytes=10_000)
    )
    assert done.ending is Ending.OUTPUT_EXCEEDED
    assert len(done.stdout) == 10_000


async def test_a_process_over_its_memory_limit_gets_an_allocation_error(sandbox: ConfinedRunner) -> None:
    done = await run(sandbox, "bytearray(10 << 30)")
    assert (done.exit_status, done.ending) == (1, Ending.EXITED)
    assert b"MemoryError" in done.stderr


async def test_processes_over_the_memory_limit_together_are_killed(sandbox: ConfinedRunner) -> None:
    code = "import os, time; os.fork(); os.fork(); x = bytearray(40 << 20); time.sleep(20)"
    done = await run(sandbox, code, limits=SandboxLimits(wall_s=10, memory_bytes=128 * MIB))
    assert done.ending is Ending.MEMORY_EXCEEDED


async def test_files_are_bounded(sandbox: ConfinedRunner) -> None:
    code = "open('big', 'wb').write(bytes(3 << 20))"
    done = await run(sandbox, code, limits=SandboxLimits(file_bytes=2 * MIB))
    assert done.exit_status != 0
    assert b"OSError" in done.stderr


async def test_a_cancelled_run_leaves_no_process(sandbox: ConfinedRunner) -> None:
    before = set(list_descendants(os.getpid()))
    task = asyncio.create_task(run(sandbox, "import time; time.sleep(60)"))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not any(map(is_running, set(list_descendants(os.getpid())) - before)))


async def test_a_workspace_survives_its_programs_and_is_deleted_at_the_end(sandbox: ConfinedRunner) -> None:
    async with sandbox.workspace() as workspace:
        await run(sandbox, "open('note', 'w').write('kept')", workspace=workspace)
        done = await run(sandbox, "print(open('note').read())", workspace=workspace)
        assert done.stdout == b"kept\n"
        assert (workspace.folder / "note").read_text() == "kept"
    assert not workspace.folder.exists()


async def test_a_sandbox_can_mount_a_workspace_elsewhere() -> None:
    sandbox = await require_bubblewrap()
    workspace = await sandbox.make_workspace(Path("/project/code"))
    try:
        done = await run(sandbox, "import os; open('x', 'w'); print(os.getcwd())", workspace=workspace)
        assert done.stdout == b"/project/code\n"
        assert (workspace.folder / "x").exists()
    finally:
        await remove_workspace(workspace)


async def test_mounting_a_workspace_elsewhere_needs_a_sandbox() -> None:
    sandbox = make_sandbox(IsolationKind.UNSANDBOXED)
    with pytest.raises(ConfigError, match="cannot be mounted at /project"):
        await sandbox.make_workspace(Path("/project"))


async def test_without_a_workspace_files_are_deleted(sandbox: ConfinedRunner) -> None:
    await run(sandbox, "open('note', 'w').write('lost')")
    assert (await run(sandbox, "import os; print(os.listdir('.'))")).stdout == b"[]\n"


def of_this_machine(**options: bool) -> ConfinedRunner:
    return ConfinedRunner.from_python(INSTALLATION, **options)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give programs users of their own")
@pytest.mark.usefixtures("no_bubblewrap")
async def test_a_machine_without_bubblewrap_warns_once_what_programs_can_reach(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sandbox = of_this_machine()
    done = await run(sandbox, "print(1)")
    await run(sandbox, "print(2)")
    assert (done.stdout, done.isolation) == (b"1\n", IsolationKind.OWN_USER)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "bubblewrap (bwrap) is not installed" in warning
    assert "it can read the files that every user can read" in warning


@pytest.mark.usefixtures("no_bubblewrap")
async def test_a_program_that_only_root_can_execute_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "closed" / "program"
    program.parent.mkdir(mode=0o700)
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    with pytest.raises(ConfigError) as caught:
        await ConfinedRunner(probe=(str(program),)).isolation()
    assert caught.value.failure.code == "sandbox_unavailable"
    assert "allow_unsandboxed" in str(caught.value.failure.remedy)


@pytest.mark.usefixtures("no_own_users")
async def test_nothing_runs_without_isolation() -> None:
    with pytest.raises(ConfigError, match="cannot be run safely here") as caught:
        await of_this_machine().isolation()
    assert "+allow_unsandboxed=true" in str(caught.value.failure.remedy)
    if os.geteuid() == 0:
        assert "as root, with write access to this machine" in str(caught.value.failure.remedy)


@pytest.mark.usefixtures("no_own_users")
async def test_a_user_can_allow_programs_without_isolation(caplog: pytest.LogCaptureFixture) -> None:
    set_global_config_dict({"allow_unsandboxed": True})
    try:
        done = await run(of_this_machine(), "import os; print(os.getuid())")
    finally:
        set_global_config_dict(None)
    assert (int(done.stdout), done.isolation) == (os.getuid(), IsolationKind.UNSANDBOXED)
    assert describe_reach(IsolationKind.UNSANDBOXED) in caplog.text


async def test_the_description_names_what_does_not_hold(
    sandbox: ConfinedRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "can_limit_memory", lambda: True)
    kind = await sandbox.isolation()
    assert await sandbox.describe() == f"isolation `{kind}`, {describe_reach(kind)}"
    monkeypatch.setattr(execution, "can_limit_memory", lambda: False)
    described = await sandbox.describe()
    assert "no cgroup can be made here" in described
    assert (
        "the CPU time of a process without a waiting parent counts only until the last look at it"
        in described
    )
    assert ("nothing bounds what waits in its sockets" in described) == (kind is not IsolationKind.BUBBLEWRAP)
    monkeypatch.setattr(execution, "can_limit_memory", lambda: True)
    monkeypatch.setattr(execution, "lacks_cpu_count", lambda: True)
    assert "no cgroup counts CPU time here" in await sandbox.describe()


@pytest.mark.parametrize("setting", ["0\n", "1\n"])
async def test_the_description_says_where_a_program_can_lower_its_priority(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execution, "_AUTOGROUP", tmp_path / "setting")
    (tmp_path / "setting").write_text(setting)
    ways = isolations(INSTALLATION.folders, python=INSTALLATION, allow_unsandboxed=True)
    weaker = [way.drop_own_folders() for way in ways]
    sandbox = ConfinedRunner(
        probe=(*PYTHON, "pass"), python=INSTALLATION, candidates=[way for way in weaker if way is not None]
    )
    assert ("/proc/self/autogroup" in await sandbox.describe()) == (setting == "1\n")


async def test_a_program_is_killed_at_its_limit_of_cpu_time(sandbox: ConfinedRunner) -> None:
    program = (*PYTHON, "while True: pass")
    assert (await sandbox.run(program, cpu_s=0.3, limits=SandboxLimits(wall_s=60))).ending is Ending.TIMED_OUT


@pytest.mark.usefixtures("no_bubblewrap")
async def test_a_required_sandbox_is_never_replaced() -> None:
    sandbox = of_this_machine(require_sandbox=True)
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            await sandbox.isolation()
        assert caught.value.failure.code == "sandbox_unavailable"


async def test_a_machine_that_cannot_set_limits_runs_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="prlimit"):
        await ConfinedRunner(probe=(*PYTHON, "pass")).isolation()


async def test_isolations_that_fail_are_skipped_and_named(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(program: Sequence[str], launch: Launch) -> list[str]:
        return ["/bin/sh", "-c", "echo no namespaces here >&2; exit 1"]

    broken = Isolation(IsolationKind.BUBBLEWRAP, refuse)
    *_, plain = isolations((), allow_unsandboxed=True)
    sandbox = ConfinedRunner(probe=(*PYTHON, "pass"), candidates=[broken, plain])
    assert await sandbox.isolation() is IsolationKind.UNSANDBOXED
    assert "bubblewrap: no namespaces here" in caplog.text


async def test_threads_and_subprocesses_still_start(sandbox: ConfinedRunner) -> None:
    code = """
import subprocess, threading
thread = threading.Thread(target=print, args=("thread",))
thread.start(); thread.join()
print(subprocess.run(["/bin/echo", "child"], capture_output=True, text=True).stdout.strip())
"""
    assert (await run(sandbox, code)).stdout == b"thread\nchild\n"


async def test_the_address_space_is_unlimited_on_request_and_memory_is_not(sandbox: ConfinedRunner) -> None:
    limits = SandboxLimits(wall_s=20, memory_bytes=128 * MIB, limits_address_space=False)
    reserved = await run(
        sandbox, "import mmap; mmap.mmap(-1, 10 << 30, flags=mmap.MAP_PRIVATE)", limits=limits
    )
    assert (reserved.exit_status, reserved.ending) == (0, Ending.EXITED)
    used = await run(sandbox, "import time; x = bytearray(512 << 20); time.sleep(20)", limits=limits)
    assert used.ending is Ending.MEMORY_EXCEEDED
