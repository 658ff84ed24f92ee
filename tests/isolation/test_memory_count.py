"""Memory that no process shows as its own counts towards the limit, where no cgroup counts it."""

from __future__ import annotations

import mmap
import os
import socket
from collections.abc import Iterator

import pytest

from nemo_gym.failures import VerifierError
from nemo_gym.isolation import memory, process
from nemo_gym.isolation.confinement import MIB, IsolationKind
from nemo_gym.isolation.execution import ConfinedRunner, Ending, SandboxLimits
from nemo_gym.isolation.memory_count import (
    available_memory,
    count_descriptors,
    count_memory,
    total_memory,
)
from tests.isolation.confined import make_sandbox, require_bubblewrap, run

LIMITS = SandboxLimits(wall_s=100, memory_bytes=128 * MIB)
CALLS = """
import ctypes, fcntl, os, socket, struct, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def fill(sender, *to):
    sender.setblocking(False)
    try:
        while True: sender.sendto(bytes(60000), *to) if to else sender.send(bytes(60000))
    except BlockingIOError: pass
"""
IN_ITSELF = {
    "empty files": "for i in range(10 ** 6): os.close(os.open(f'/tmp/{i}', os.O_CREAT))",
    "links": "for i in range(10 ** 6): os.symlink('x' * 60, f'/dev/shm/{i}')",
    "empty folders": "for i in range(10 ** 6): os.mkdir(f'/tmp/{i}')",
    "page tables": """
place = libc.mmap(None, 1 << 40, 1, 0x4022, -1, 0)
for offset in range(0, 1 << 40, 2 << 20): ctypes.c_char.from_address(place + offset).value
""",
    "mappings": """
for _ in range(15):
    if os.fork() == 0: break
place = libc.mmap(None, 16000 * 4096, 0, 0x22, -1, 0)
for number in range(0, 16000, 2): libc.mprotect(place + number * 4096, 4096, 1)
""",
    "event queues": "for _ in range(40): libc.inotify_init1(0)",
}
NETLINK = """
import struct
for _ in range(19):
    if os.fork() == 0: break
request, asked = struct.pack('IHHIIBBHiII', 32, 18, 1, 1, 0, 0, 0, 0, 1, 0, 0), []
for _ in range(200):
    asked.append(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
    try:
        for _ in range(300): asked[-1].send(request)
    except OSError: pass
"""
"""The answers are not read."""
IN_SOCKETS = {
    "Unix sockets": """
for _ in range(2): os.fork()
pairs = [socket.socketpair() for _ in range(100)]
for pair in pairs:
    for end in pair: fill(end)
""",
    "connections that nobody accepts": """
server = socket.socket(socket.AF_UNIX); server.bind('\\0server'); server.listen(4000)
for _ in range(3000):
    client = socket.socket(socket.AF_UNIX); client.setblocking(False); client.connect('\\0server'); fill(client)
    client.close()
""",
    "datagrams of closed senders": """
servers = []
for number in range(100):
    server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); server.bind(f'\\0{number}'); servers.append(server)
    for _ in range(12):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); fill(client, f'\\0{number}'); client.close()
""",
    "TCP": """
server = socket.socket(); server.bind(('127.0.0.1', 0)); server.listen(4000); clients = []
for _ in range(200): clients.append(socket.create_connection(server.getsockname())); fill(clients[-1])
""",
    "netlink": NETLINK,
}
HONEST = """
import os, socket, time
data = bytearray(60 << 20)
pairs = [socket.socketpair() for _ in range(20)]
for number in range(2000): open(f'/tmp/{number}', 'w').write('text')
children = []
for _ in range(4):
    child = os.fork()
    if child == 0: time.sleep(1); os._exit(0)
    children.append(child)
for child in children: os.waitpid(child, 0)
print('done')
"""


@pytest.fixture(autouse=True)
def no_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cgroup can be made, as for most users that are not root."""
    monkeypatch.setattr(memory, "_parent", lambda: None)


@pytest.mark.parametrize("code", IN_ITSELF.values(), ids=IN_ITSELF)
async def test_memory_without_a_resident_page_counts(code: str) -> None:
    limits = SandboxLimits(wall_s=100, memory_bytes=128 * MIB, limits_address_space="1 << 40" not in code)
    done = await run(make_sandbox(), CALLS + code + "\ntime.sleep(100)", limits=limits)
    assert done.ending is Ending.MEMORY_EXCEEDED, done.stderr


@pytest.mark.parametrize("code", IN_SOCKETS.values(), ids=IN_SOCKETS)
async def test_what_waits_in_sockets_counts(code: str) -> None:
    sandbox = await require_bubblewrap()
    done = await run(sandbox, CALLS + code + "\ntime.sleep(100)", limits=LIMITS)
    assert done.ending is Ending.MEMORY_EXCEEDED, done.stderr


async def test_what_waits_in_netlinks_counts_in_a_group_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    sandbox = await require_bubblewrap()
    done = await run(sandbox, CALLS + NETLINK + "\ntime.sleep(100)", limits=LIMITS)
    assert done.ending is Ending.MEMORY_EXCEEDED, done.stderr


async def test_pages_that_processes_share_count_once(sandbox: ConfinedRunner) -> None:
    done = await run(sandbox, HONEST, limits=LIMITS)
    assert (done.stdout, done.ending) == (b"done\n", Ending.EXITED)


@pytest.mark.parametrize("kind", [IsolationKind.OWN_USER, IsolationKind.UNSANDBOXED])
async def test_files_in_own_folders_are_bounded_by_number(kind: IsolationKind) -> None:
    sandbox = make_sandbox(kind)
    code = "import os\nfor i in range(1000): os.close(os.open(f'/tmp/{i}', os.O_CREAT))"
    done = await run(sandbox, code, limits=SandboxLimits(wall_s=60, files=500))
    assert b"No space left on device" in done.stderr


async def test_a_machine_without_memory_ends_a_program_by_a_failure_and_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sandbox = make_sandbox()
    await sandbox.isolation()
    left: Iterator[int] = iter((total_memory(),))
    monkeypatch.setattr(process, "available_memory", lambda: next(left, 0))
    with pytest.raises(VerifierError) as caught:
        await run(sandbox, "import time; time.sleep(100)", limits=LIMITS)
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("sandbox_crowded_out", True)


def test_the_memory_of_this_process_is_counted() -> None:
    assert 0 < available_memory() < total_memory()
    before = count_memory([os.getpid()], 1 << 40)
    with mmap.mmap(-1, 64 * MIB) as block:  # not from the heap, where freed memory may wait
        block.write(b"x" * (64 * MIB))
        assert count_memory([os.getpid()], 1 << 40) - before > 32 * MIB
    assert count_memory([], 1 << 40) == 0
    assert count_memory([2**22 + 1], 1 << 40) == 0, "a process that has ended has none"


def test_pipes_are_counted_once_however_often_they_are_open() -> None:
    before = count_descriptors([os.getpid()], 1 << 40)
    ends = [os.pipe() for _ in range(20)]
    copies = [os.dup(read) for read, _ in ends]
    after = count_descriptors([os.getpid()], 1 << 40)
    for end in (*copies, *(end for pair in ends for end in pair)):
        os.close(end)
    assert 20 * 16 * 1024 <= after - before < 21 * 16 * 1024 + 60 * 4 * 200
    with socket.socket(socket.AF_UNIX):
        assert count_descriptors([os.getpid()], 0) > 0
