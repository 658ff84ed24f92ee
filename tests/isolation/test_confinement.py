"""The isolations of this machine, and the command lines that apply them."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from nemo_gym.isolation.confinement import (
    MIB,
    Isolation,
    IsolationKind,
    SandboxLimits,
    Workspace,
    isolations,
)
from nemo_gym.isolation.execution import ConfinedRunner
from nemo_gym.isolation.users import claim_user
from tests.isolation.confined import INSTALLATION, require_bubblewrap, run


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
    done = await run(sandbox, code, limits=SandboxLimits(folder_bytes=2 * MIB))
    assert done.stdout.decode().splitlines() == [
        "/tmp No space left on device",
        "/dev/shm No space left on device",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="programs have users of their own only if the gym runs as root")
async def test_programs_that_run_at_once_have_different_users_and_are_never_root(
    sandbox: ConfinedRunner,
) -> None:
    if await sandbox.isolation() is IsolationKind.UNSANDBOXED:
        pytest.skip("programs without isolation run as the gym's user")
    done = await asyncio.gather(*(run(sandbox, "import os; print(os.getuid())") for _ in range(4)))
    users = {int(each.stdout) for each in done}
    assert len(users) == 4
    assert min(users) > 1000


WAYS = [*isolations(INSTALLATION.folders, python=INSTALLATION, allow_unsandboxed=True)]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way.kind))


@every_way
def test_a_command_sets_every_limit_and_ends_with_the_program(way: Isolation, tmp_path: Path) -> None:
    limits = SandboxLimits(wall_s=2.5, memory_bytes=MIB, file_bytes=10, open_files=20)
    user = claim_user() if way.has_own_users else None
    launch = way.launch(["/bin/true", "--", "x"], limits, Workspace(tmp_path, user))
    assert launch.command[-4:] == ("--", "/bin/true", "--", "x")
    assert {f"--as={MIB}:{MIB}", "--core=0:0", "--cpu=4:4", "--fsize=10:10", "--nofile=20:20"} <= {
        *launch.command
    }
    assert launch.user is user
    assert any(part.startswith("--reuid=") for part in launch.command) is way.has_own_users
    launch.close()
    if user is not None:
        assert user.fileno() >= 0, "the user belongs to the workspace"
        user.release()


@every_way
def test_every_launch_without_a_workspace_has_a_user_of_its_own_or_none(way: Isolation) -> None:
    launches = [way.launch(["/bin/true"], SandboxLimits(), None) for _ in range(5)]
    users = {launch.user.uid for launch in launches if launch.user is not None}
    assert len(users) == (5 if way.has_own_users else 0)
    for launch in launches:
        launch.close()


WRITE_TO_PROC = """
import errno, os
read_only = opened = 0
pid = os.getpid()
places = ["self", "thread-self", f"self/task/{pid}", "self/root/proc/self", f"{pid}", f"{pid}/root/proc/self"]
for place in places:
    for name in ("autogroup", "oom_score_adj", "oom_adj", "coredump_filter", "timerslack_ns", "comm", "sched",
            "clear_refs", "mem", "timens_offsets", "setgroups", "attr/current", "gid_map", "loginuid"):
        try:
            os.close(os.open(f"/proc/{place}/{name}", os.O_WRONLY))
            opened += 1
        except OSError as error:
            read_only += error.errno == errno.EROFS
print(opened, read_only > 30, os.getpriority(os.PRIO_PROCESS, 0) == NICE)
theirs, ours = os.pipe()
with open(f"/proc/self/fd/{ours}", "w") as file:
    file.write("still written")
print(os.read(theirs, 100).decode())
"""


async def test_a_program_cannot_change_how_the_kernel_treats_it(sandbox: ConfinedRunner) -> None:
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    done = await run(sandbox, WRITE_TO_PROC.replace("NICE", str(nice)))
    assert done.stdout.split(b"\n") == [b"0 True True", b"still written", b""], done.stderr
