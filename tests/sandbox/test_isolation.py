"""The isolations of this machine, and the command lines that apply them."""

from __future__ import annotations

import socket
from pathlib import Path

import psutil
import pytest

from nemo_gym.sandbox.execution import ConfinedRunner
from nemo_gym.sandbox.isolation import (
    MIB,
    Isolation,
    IsolationKind,
    SandboxLimits,
    Workspace,
    draw_user,
    isolations,
)
from tests.sandbox.confined import FOLDERS, require_bubblewrap, run
from tests.waiting import is_running, until


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


@pytest.mark.parametrize("way", [*isolations(FOLDERS)], ids=lambda way: f"{way.kind}-{way.draws_user}")
def test_a_command_sets_every_limit_and_ends_with_the_program(way: Isolation, tmp_path: Path) -> None:
    limits = SandboxLimits(wall_s=2.5, memory_bytes=MIB, file_bytes=10, open_files=20)
    launch = way.launch(["/bin/true", "--", "x"], limits, Workspace(tmp_path, user=4711))
    assert launch.command[-4:] == ("--", "/bin/true", "--", "x")
    assert {f"--as={MIB}:{MIB}", "--core=0:0", "--cpu=4:4", "--fsize=10:10", "--nofile=20:20"} <= {
        *launch.command
    }
    assert launch.user == 4711
    assert ("--reuid=4711" in launch.command) is way.draws_user


@pytest.mark.parametrize("way", [*isolations(FOLDERS)], ids=lambda way: f"{way.kind}-{way.draws_user}")
def test_every_launch_without_a_workspace_has_a_user_of_its_own_or_none(way: Isolation) -> None:
    users = {way.launch(["/bin/true"], SandboxLimits(), None).user for _ in range(5)}
    assert users == {None} or len(users) == 5 == len(users - {None})
    assert (None not in users) is way.draws_user
