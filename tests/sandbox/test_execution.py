"""Confined programs: their environment, their limits and their end."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from nemo_gym.failures import ConfigError, VerifierError
from nemo_gym.processes.process_tree import tree_of
from nemo_gym.sandbox.execution import (
    ConfinedRunner,
    Ending,
    Execution,
    IsolationKind,
    SandboxLimits,
    remove_workspace,
)
from nemo_gym.sandbox.isolation import MIB, Isolation, Workspace, draw_user, isolations
from tests.pythons import python_for_other_users
from tests.waiting import is_running, until

PYTHON = (python_for_other_users(), "-s", "-S", "-B", "-X", "utf8", "-c")
FOLDERS = (Path(PYTHON[0]).parents[1],)


def make_sandbox(kind: IsolationKind | None = None) -> ConfinedRunner:
    """A runner with the strictest isolation of this machine, or the weakest of a given kind."""
    ways = [way for way in isolations(FOLDERS) if kind in (None, way.kind)]
    if not ways:
        pytest.skip(f"this machine has no {kind}")
    return ConfinedRunner(probe=(*PYTHON, "pass"), readable=FOLDERS, candidates=ways[-1:] if kind else ways)


async def require_bubblewrap() -> ConfinedRunner:
    sandbox = make_sandbox()
    if await sandbox.isolation() is not IsolationKind.BUBBLEWRAP:
        pytest.skip("bubblewrap does not work on this machine")
    return sandbox


async def run(sandbox: ConfinedRunner, code: str, **options: object) -> Execution:
    limits = options.pop("limits", SandboxLimits(wall_s=10))
    return await sandbox.run((*PYTHON, code), limits=limits, **options)  # type: ignore[arg-type]


@pytest.fixture(params=list(IsolationKind))
def sandbox(request: pytest.FixtureRequest) -> ConfinedRunner:
    return make_sandbox(request.param)


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
    assert set(eval(done.stdout)) <= {"LC_CTYPE", "PWD", "PYTHONHASHSEED"}


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


async def test_children_end_with_the_program(sandbox: ConfinedRunner) -> None:
    async with sandbox.open(
        (*PYTHON, "import os, time; os.fork(); print('up', flush=True); time.sleep(60)")
    ) as process:
        assert await process.read_line(10) == b"up\n"
        tree = [process.pid, *tree_of(process.pid)]
        assert len(tree) > 1
    await until(lambda: not any(map(is_running, tree)))
    assert list(tree_of(tree[0])) == [], "a process that has ended has no children"


async def test_a_surviving_child_does_not_delay_the_result(sandbox: ConfinedRunner) -> None:
    code = "import os, time\nif os.fork() == 0: time.sleep(30)\nprint('done')"
    done = await run(sandbox, code)
    assert (done.stdout, done.ending) == (b"done\n", Ending.EXITED)
    assert done.seconds < 30


async def test_a_cancelled_run_leaves_no_process(sandbox: ConfinedRunner) -> None:
    before = set(tree_of(os.getpid()))
    task = asyncio.create_task(run(sandbox, "import time; time.sleep(60)"))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not any(map(is_running, set(tree_of(os.getpid())) - before)))


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
    sandbox = make_sandbox(IsolationKind.PROCESS)
    with pytest.raises(ConfigError, match="cannot be mounted at /project"):
        await sandbox.make_workspace(Path("/project"))


async def test_without_a_workspace_files_are_deleted(sandbox: ConfinedRunner) -> None:
    await run(sandbox, "open('note', 'w').write('lost')")
    assert (await run(sandbox, "import os; print(os.listdir('.'))")).stdout == b"[]\n"


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


async def test_the_sandbox_hides_the_machine(tmp_path: Path) -> None:
    sandbox = await require_bubblewrap()
    (tmp_path / "secret").write_text("secret")
    code = f"""
import os
print(os.path.exists({str(tmp_path / "secret")!r}), os.path.exists("/etc/passwd"), os.path.exists({str(Path.cwd())!r}))
print(len([name for name in os.listdir("/proc") if name.isdigit()]) < 8)
for place in ("/", "/usr", "/dev", "/proc"):
    try:
        open(place + "/x", "w")
    except OSError:
        continue
    print("could write", place)
print([line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "CapPrm"))])
"""
    done = await run(sandbox, code)
    assert done.stdout.decode().splitlines() == [
        "False False False",
        "True",
        "['0000000000000000', '0000000000000000']",
    ]


async def test_the_sandbox_has_no_network() -> None:
    sandbox = await require_bubblewrap()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = await run(sandbox, f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)")
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert done.exit_status == 1


async def test_the_sandbox_bounds_processes_and_kills_all() -> None:
    sandbox = await require_bubblewrap()
    code = """
import os, time
count = 0
try:
    while True:
        if os.fork() == 0:
            os.setsid()
            time.sleep(60)
            os._exit(0)
        count += 1
except OSError:
    print(count)
"""
    done = await run(sandbox, code, limits=SandboxLimits(wall_s=10, processes=16))
    assert 0 < int(done.stdout) < 16


async def test_the_sandbox_bounds_its_private_folders() -> None:
    sandbox = await require_bubblewrap()
    code = """
for folder in ("/tmp", "/dev/shm"):
    try:
        for number in range(5):
            open(f"{folder}/{number}", "wb").write(bytes(1 << 20))
    except OSError as error:
        print(folder, error.strerror)
"""
    done = await run(sandbox, code, limits=SandboxLimits(file_bytes=2 * MIB))
    assert done.stdout.decode().splitlines() == [
        "/tmp No space left on device",
        "/dev/shm No space left on device",
    ]


@pytest.fixture
def no_bubblewrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A search path without bubblewrap."""
    for name in ("prlimit", "setpriv"):
        found = shutil.which(name)
        if found is not None:
            (tmp_path / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_bubblewrap")
async def test_a_machine_without_bubblewrap_logs_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    sandbox = ConfinedRunner(probe=(*PYTHON, "pass"), readable=FOLDERS)
    done = await run(sandbox, "print(1)")
    await run(sandbox, "print(2)")
    assert (done.stdout, done.isolation) == (b"1\n", IsolationKind.PROCESS)
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "bubblewrap (bwrap) is not installed" in warning
    assert "isolation `process`" in warning


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's gym runs programs as that user")
@pytest.mark.usefixtures("no_bubblewrap")
async def test_a_program_that_only_root_can_execute_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "closed" / "program"
    program.parent.mkdir(mode=0o700)
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    with pytest.raises(ConfigError) as caught:
        await ConfinedRunner(probe=(str(program),)).isolation()
    assert caught.value.failure.code == "sandbox_unavailable"
    assert "bubblewrap" in str(caught.value)


@pytest.mark.usefixtures("no_bubblewrap")
async def test_a_required_sandbox_is_never_replaced() -> None:
    sandbox = ConfinedRunner(probe=(*PYTHON, "pass"), readable=FOLDERS, require_sandbox=True)
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


async def test_a_program_that_cannot_be_started_gives_a_retryable_failure(tmp_path: Path) -> None:
    launcher = tmp_path / "launcher"
    launcher.write_text("#!/bin/sh\nexit 0\n")
    launcher.chmod(0o755)

    def confine(
        program: Sequence[str], limits: SandboxLimits, workspace: Workspace | None, user: int | None
    ) -> list[str]:
        return [str(launcher), *program]

    way = Isolation(IsolationKind.BUBBLEWRAP, draws_user=False, confine=confine)
    sandbox = ConfinedRunner(probe=("true",), candidates=[way])
    await sandbox.isolation()
    launcher.unlink()
    with pytest.raises(VerifierError) as caught:
        await run(sandbox, "pass")
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("sandbox_failed", True)


async def test_isolations_that_fail_are_skipped_and_named(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(
        program: Sequence[str], limits: SandboxLimits, workspace: Workspace | None, user: int | None
    ) -> list[str]:
        return ["/bin/sh", "-c", "echo no namespaces here >&2; exit 1"]

    broken = Isolation(IsolationKind.BUBBLEWRAP, draws_user=False, confine=refuse)
    plain = [way for way in isolations(FOLDERS) if way.kind is IsolationKind.PROCESS][-1]
    sandbox = ConfinedRunner(probe=(*PYTHON, "pass"), candidates=[broken, plain])
    assert await sandbox.isolation() is IsolationKind.PROCESS
    assert "bubblewrap: no namespaces here" in caplog.text


async def test_a_program_with_its_own_user_leaves_no_process() -> None:
    ways = [way for way in isolations(()) if way.kind is IsolationKind.PROCESS and way.draws_user]
    if not ways:
        pytest.skip("programs have their own users only if the gym runs as root")
    sandbox = ConfinedRunner(probe=("/bin/sh", "-c", "exit 0"), candidates=ways)
    done = await sandbox.run(["/bin/sh", "-c", "(setsid sleep 60 &) ; sleep 0.1; id -u"])
    user = int(done.stdout)
    assert user > 1000
    theirs = [process for process in psutil.process_iter(["uids"]) if process.info["uids"].real == user]
    await until(lambda: not any(is_running(process.pid) for process in theirs))


def test_random_users_differ() -> None:
    users = {draw_user() for _ in range(20)}
    assert len(users) == 20
    assert min(users) > 1000
