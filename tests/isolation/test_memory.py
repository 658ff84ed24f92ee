"""The memory limit holds for all processes together, shared memory included."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from nemo_gym.isolation import memory
from nemo_gym.isolation.confinement import MIB, isolations
from nemo_gym.isolation.execution import ConfinedRunner, Ending, SandboxLimits
from tests.isolation.confined import INSTALLATION, PYTHON, run

SHARED_MEMORY = """
import mmap, os, time
for _ in range(3):
    if os.fork() == 0:
        break
memory = mmap.mmap(-1, 40 << 20)
for _ in range(40):
    memory.write(bytes(1 << 20))
    memory.madvise(mmap.MADV_DONTNEED)  # the pages stay, and are never resident in a process for long
time.sleep(100)
"""


@pytest.mark.parametrize("has_groups", [True, False])
async def test_shared_memory_counts_towards_the_limit(
    sandbox: ConfinedRunner, has_groups: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_groups:
        monkeypatch.setattr(memory, "_parent", lambda: None)
    elif memory._parent() is None:
        pytest.skip("this machine has no writable cgroup with a memory limit")
    done = await run(sandbox, SHARED_MEMORY, limits=SandboxLimits(wall_s=60, memory_bytes=128 * MIB))
    assert done.ending is Ending.MEMORY_EXCEEDED


def test_a_group_is_gone_after_its_removal() -> None:
    group = memory.make_memory_group(1 << 30)
    if group is None:
        pytest.skip("this machine has no writable cgroup with a memory limit")
    assert not group.is_exceeded()
    group.remove()
    group.remove()
    with pytest.raises(FileNotFoundError):
        open(group.processes_file)  # noqa: PTH123, SIM115 - it must not exist


SOCKETS = """
import resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
with socket.create_server(("127.0.0.1", 0)) as server:
    sent, kept = 0, []
    for _ in range(60):
        kept += [socket.create_connection(server.getsockname()), server.accept()[0]]
        for one in kept[-2:]:
            one.setblocking(False)
            try:
                while True:
                    sent += one.send(bytes(1 << 16))
            except OSError:
                pass
print(sent >> 20)
"""


async def test_what_waits_in_tcp_counts_towards_the_limit() -> None:
    if memory._parent() is None:
        pytest.skip("this machine has no writable cgroup with a memory limit")
    sandbox = ConfinedRunner(
        probe=(*PYTHON, "pass"),
        python=INSTALLATION,
        candidates=isolations(INSTALLATION.folders, python=INSTALLATION, own_network=True),
    )
    limits = SandboxLimits(wall_s=120, memory_bytes=128 * MIB)
    done = await run(sandbox, SOCKETS, limits=limits)
    assert done.ending is Ending.MEMORY_EXCEEDED or int(done.stdout) < 128


IGNORED_CHILDREN = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(30):
    if os.fork() == 0:
        while time.process_time() < 0.05: pass
        os._exit(0)
    time.sleep(0.001)
try: os.wait()
except ChildProcessError: print("done", flush=True)
input()
"""


async def test_the_cpu_time_of_children_without_a_waiting_parent_counts(sandbox: ConfinedRunner) -> None:
    if memory._parent() is None or memory.lacks_cpu_count():
        pytest.skip("this machine has no writable cgroup that counts CPU time")
    async with sandbox.open((*PYTHON, IGNORED_CHILDREN), limits=SandboxLimits(wall_s=120)) as process:
        assert await process.read_line() == b"done\n"
        limit = process.cpu_limit(0.1)
        assert limit.check(1000, has_answered=True) is None, "times before the limit do not count"
    async with sandbox.open((*PYTHON, IGNORED_CHILDREN), limits=SandboxLimits(wall_s=120)) as process:
        limit = process.cpu_limit(1)
        assert await process.read_line() == b"done\n"
        assert limit.check(1000, has_answered=True) is Ending.TIMED_OUT


class KernelOfVersion1:
    """Folders that behave as cgroups of version 1: every new group has the files of its hierarchy."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files = {
            "memory": [
                "memory.limit_in_bytes",
                "memory.kmem.tcp.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
            ],
            "cpu,cpuacct": ["cpuacct.usage", "cpu.cfs_quota_us"],
        }
        self.groups = folder / "cgroup"
        make_folder = Path.mkdir
        mounts, own = "", ""
        for place, name in enumerate(self.files):
            make_folder(self.groups / name, parents=True)
            mounts += f"{30 + place} 25 0:31 / {self.groups / name} rw shared:9 - cgroup cgroup rw,{name}\n"
            own += f"{place}:{name}:/\n"

        def mkdir(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
            make_folder(path, mode, parents, exist_ok)
            for name in ("cgroup.procs", *self.files[path.parent.name]):
                (path / name).write_text("0")

        make_folder(folder / "proc")
        (folder / "proc" / "mountinfo").write_text(mounts)
        (folder / "proc" / "cgroup").write_text(own)
        monkeypatch.setattr(memory, "_PROC", folder / "proc")
        monkeypatch.setattr(Path, "mkdir", mkdir)
        monkeypatch.setattr(Path, "rmdir", lambda path: shutil.rmtree(path))
        memory._parent.cache_clear()


@pytest.fixture
def version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelOfVersion1]:
    yield KernelOfVersion1(tmp_path, monkeypatch)
    memory._parent.cache_clear()


def test_a_group_of_version_1_bounds_sockets_and_swap(version_1: KernelOfVersion1) -> None:
    group = memory.make_memory_group(64 * MIB)
    assert group is not None
    folder, cpu_folder = (Path(file).parent for file in group.processes_files)
    assert (folder.parent.name, cpu_folder.parent.name) == ("memory", "cpu,cpuacct")
    limits = {name: int((folder / name).read_text()) for name in version_1.files["memory"]}
    assert limits == {
        "memory.limit_in_bytes": 64 * MIB,
        "memory.kmem.tcp.limit_in_bytes": 16 * MIB,
        "memory.memsw.limit_in_bytes": 64 * MIB,
    }
    (cpu_folder / "cpuacct.usage").write_text("1500000000\n")
    assert group.cpu_s() == 1.5
    group.remove()
    assert [*version_1.groups.glob("*/nemo_gym_*")] == []


def test_groups_of_version_1_that_leave_sockets_out_are_not_used(version_1: KernelOfVersion1) -> None:
    version_1.files["memory"].remove("memory.kmem.tcp.limit_in_bytes")
    assert not memory.can_limit_memory()
    assert memory.make_memory_group(64 * MIB) is None


def test_groups_of_version_1_may_lack_the_count_of_cpu_time(version_1: KernelOfVersion1) -> None:
    version_1.files["cpu,cpuacct"].clear()
    assert memory.can_limit_memory()
    assert memory.lacks_cpu_count()
    group = memory.make_memory_group(64 * MIB)
    assert group is not None
    assert group.processes_files == [group.processes_file]
    assert group.cpu_s() is None


def test_a_group_of_version_1_limits_cpus_beside_the_count_of_cpu_time(
    version_1: KernelOfVersion1,
) -> None:
    assert memory.can_limit_cpus()
    group = memory.make_memory_group(64 * MIB, 1.5)
    assert group is not None
    _, cpu_folder = (Path(file).parent for file in group.processes_files)
    assert (cpu_folder / "cpu.cfs_quota_us").read_text() == "150000"
    group.remove()
    assert [*version_1.groups.glob("*/nemo_gym_*")] == []
    version_1.files["cpu,cpuacct"].remove("cpu.cfs_quota_us")
    memory._quota_parent.cache_clear()
    assert not memory.can_limit_cpus()
    assert memory.make_memory_group(64 * MIB, 1.5) is None


def test_a_limit_of_cpus_holds_for_all_processes_together() -> None:
    group = memory.make_memory_group(64 * MIB, 0.25)
    if group is None:
        pytest.skip("this machine has no writable cgroup that limits CPUs")
    burn = "import os, time; os.fork(); end = time.monotonic() + 1\nwhile time.monotonic() < end: pass"
    subprocess.run([*group.build_entry_command(), sys.executable, "-c", burn], check=True)
    limited = [Path(each).with_name("cpu.stat") for each in group.processes_files]
    lines = [line.split() for file in limited if file.exists() for line in file.read_text().splitlines()]
    assert any(name == "nr_throttled" and int(value) > 0 for name, value in lines)
    group.remove()


class KernelOfVersion2:
    """Folders that behave as cgroups of version 2: a new group gets the files of its parent's controllers."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.groups, self._proc = folder / "cgroup", folder / "proc"
        self.is_read_only = False
        make_folder = self._make_folder = Path.mkdir
        remove_folder = Path.rmdir

        def mkdir(path: Path, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
            if self.is_read_only:
                raise OSError(30, "Read-only file system")
            make_folder(path, mode, parents, exist_ok)
            controllers = path.parent / "cgroup.subtree_control"
            if not controllers.exists():
                return
            (path / "cgroup.procs").write_text("")
            enabled = controllers.read_text().replace("+", " ").split()
            if "cpu" in enabled:
                (path / "cpu.max").write_text("max 100000")
            if "memory" in enabled:
                (path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 0\n")
                for name, text in (("max", "max"), ("swap.max", "max"), ("events", "oom 0\noom_kill 0\n")):
                    (path / f"memory.{name}").write_text(text)

        def rmdir(path: Path) -> None:
            if self.groups in path.parents and path.exists():
                shutil.rmtree(path)
            else:
                remove_folder(path)

        for path in (self.groups, self._proc):
            make_folder(path)
        (self._proc / "mountinfo").write_text(
            f"24 1 0:5 / /proc rw - proc proc rw\n"
            f"36 25 0:31 / {self.groups} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
        )
        monkeypatch.setattr(memory, "_PROC", self._proc)
        monkeypatch.setattr(Path, "mkdir", mkdir)
        monkeypatch.setattr(Path, "rmdir", rmdir)
        memory._parent.cache_clear()

    def enter(self, group: str, children_have: str) -> Path:
        """Make `group` that of this process, whose children have the controllers `children_have`."""
        folder = self.groups / group
        self._make_folder(folder, parents=True, exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(children_have)
        (self._proc / "cgroup").write_text(f"0::/{group}\n")
        return folder


@pytest.fixture
def version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelOfVersion2]:
    yield KernelOfVersion2(tmp_path, monkeypatch)
    memory._parent.cache_clear()


def test_a_group_of_version_2_has_the_limit_without_swap(version_2: KernelOfVersion2) -> None:
    root = version_2.enter("", "cpu memory pids")
    group = memory.make_memory_group(64 * MIB)
    assert group is not None
    folder = Path(group.processes_file).parent
    assert folder.parent == root
    assert (folder / "memory.max").read_text() == str(64 * MIB)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert group.processes_files == [group.processes_file]
    assert group.cpu_s() == 2.5
    assert not group.is_exceeded()
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 0\n")
    assert group.is_exceeded()
    group.remove()
    assert not folder.exists()


@pytest.mark.parametrize("option", ["nosocket", "nokmem", "nokmem,nosocket"])
def test_a_kernel_whose_groups_leave_something_out_has_no_group(
    version_2: KernelOfVersion2, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version_2.enter("", "memory")
    monkeypatch.setattr(memory, "_COMMAND_LINE", tmp_path / "cmdline")
    memory._COMMAND_LINE.write_text(f"quiet cgroup.memory={option} ro\n")
    assert not memory.can_limit_memory()
    memory._parent.cache_clear()
    memory._COMMAND_LINE.write_text("quiet cgroup.memory=nobpf ro\n")
    assert memory.can_limit_memory()


@pytest.mark.parametrize("controllers", ["", "cpu pids"])
def test_a_group_with_processes_has_no_limited_children_in_version_2(
    version_2: KernelOfVersion2, controllers: str
) -> None:
    own = version_2.enter("user.slice/session-1.scope", controllers)
    assert memory.make_memory_group(64 * MIB) is None
    assert [path.name for path in own.iterdir()] == ["cgroup.subtree_control"], "no group is left behind"


def test_a_read_only_tree_of_version_2_has_no_group(version_2: KernelOfVersion2) -> None:
    version_2.enter("", "memory")
    version_2.is_read_only = True
    assert memory.make_memory_group(64 * MIB) is None


def delegate(own: Path, controllers: str, mark: bytes) -> None:
    """Give a group what systemd gives to a unit with `Delegate=yes`, and two processes."""
    (own / "cgroup.controllers").write_text(controllers)
    (own / "cgroup.procs").write_text("11\n12\n")
    try:
        os.setxattr(own, "user.delegate", mark)
    except OSError:
        pytest.skip("the temporary folder has no extended attributes")


def test_a_delegated_group_of_version_2_is_divided(version_2: KernelOfVersion2) -> None:
    own = version_2.enter("user.slice/run-1.scope", "")
    delegate(own, "cpu memory pids", b"1")
    assert memory.can_limit_memory()
    group = memory.make_memory_group(64 * MIB)
    assert group is not None
    assert Path(group.processes_file).parent.parent == own
    assert (own / "nemo_gym_servers" / "cgroup.procs").read_text() == "12", "the last that was moved"
    group.remove()


@pytest.mark.parametrize(("controllers", "can_limit"), [("cpu memory pids", True), ("memory pids", False)])
def test_a_delegated_group_limits_cpus_if_it_has_that_controller(
    version_2: KernelOfVersion2, controllers: str, can_limit: bool
) -> None:
    own = version_2.enter("user.slice/run-1.scope", "")
    delegate(own, controllers, b"1")
    assert memory.can_limit_cpus() is can_limit
    group = memory.make_memory_group(64 * MIB, 0.5)
    if not can_limit:
        assert group is None
        return
    assert group is not None
    assert Path(group.processes_file).with_name("cpu.max").read_text() == "50000 100000"
    group.remove()


def test_a_process_that_was_moved_makes_groups_beside_its_own(version_2: KernelOfVersion2) -> None:
    own = version_2.enter("user.slice/run-1.scope", "memory")
    version_2.enter("user.slice/run-1.scope/nemo_gym_servers", "")
    group = memory.make_memory_group(64 * MIB)
    assert group is not None
    assert Path(group.processes_file).parent.parent == own


@pytest.mark.parametrize(("controllers", "mark"), [("cpu pids", b"1"), ("memory", b"0")])
def test_a_group_that_is_not_delegated_is_left_as_it_is(
    version_2: KernelOfVersion2, controllers: str, mark: bytes
) -> None:
    own = version_2.enter("user.slice/session-1.scope", "")
    delegate(own, controllers, mark)
    assert not memory.can_limit_memory()
    assert not (own / "nemo_gym_servers").exists()


async def test_memory_is_counted_where_version_2_denies_a_group(
    sandbox: ConfinedRunner, version_2: KernelOfVersion2
) -> None:
    version_2.enter("user.slice/session-1.scope", "")
    done = await run(sandbox, SHARED_MEMORY, limits=SandboxLimits(wall_s=60, memory_bytes=128 * MIB))
    assert done.ending is Ending.MEMORY_EXCEEDED
