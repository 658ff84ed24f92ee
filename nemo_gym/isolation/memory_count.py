"""The memory of a confined program, added up from /proc where no cgroup counts it.

    processes    their resident memory (proportional, where pages are shared), page tables and mappings
    shared       mappings whose pages need not be resident in any process
    folders      the space and the entries of its private folders, which are file systems in memory
    sockets      those of its own network, with the bytes that wait in them
    descriptors  pipes, event queues, locks: what `fdinfo` lists, and a fixed sum for each queue

The kernel shows the size of most of its own objects nowhere. Each is counted at the most that it may hold, or at a
multiple of the text that describes it, so that the sum is rather too high than too low. The filter of system calls
denies what cannot be counted (`nemo_gym.isolation.system_calls`).
"""

# ruff: noqa: PTH115, PTH116, PTH123, PTH208 - many files are read ten times a second

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

KIB = 1 << 10
PRIVATE_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run/lock")
"""The folders that every user can write to. A confined program has its own, where the kernel allows it."""

_SHARED_MAPPINGS = (b"/dev/zero", b"/memfd:", b"/SYSV")
_STATUS = re.compile(rb"^(?:VmRSS|VmPTE):\s+(\d+)", re.MULTILINE)
_PROPORTIONAL = re.compile(rb"^Pss:\s+(\d+)", re.MULTILINE)
_CHUNK_BYTES = 256 * KIB
_ENTRY_BYTES = KIB
_MAPPING_BYTES, _MAPPING_BYTES_PER_PROCESS = 256, 64
"""A mapping, and its links to the mappings of each process that it was inherited from."""
_QUEUE_BYTES = 8 << 20
"""Events that wait in an inotify queue."""
_PIPE_BYTES = 16 * KIB
"""Beyond the first thousand pipes of a user, pipes have two pages."""
_BYTES_PER_CHARACTER = 4
"""`fdinfo` has a line for each lock, watch and polled file, of a fourth of its size."""
_DATAGRAM, _DATAGRAMS = b"0002", 11
"""Datagrams may wait in a Unix socket whose senders are gone: this many in a new network."""
_USUAL_SOCKET_BYTES = 212_992
_OVERHEAD = 1.5
"""Memory for each byte that waits in a socket."""


def count_memory(pids: Sequence[int], limit_bytes: int) -> int:
    """Return the memory of processes in bytes, without their descriptors; not exact if it is above the limit."""
    counted = resident = 0
    shared = dict[tuple[bytes, bytes], int]()
    for pid in pids:
        found = [int(size) * KIB for size in _STATUS.findall(_read(f"/proc/{pid}/status"))]
        resident += found[0] if len(found) == 2 else 0
        counted += found[1] if len(found) == 2 else 0
        counted += _count_mappings(pid, shared, limit_bytes) * (
            _MAPPING_BYTES + _MAPPING_BYTES_PER_PROCESS * len(pids)
        )
        if counted > limit_bytes:
            return counted
    counted += sum(shared.values()) + _count_own_places(pids, limit_bytes)
    if len(pids) > 2 and counted <= limit_bytes < counted + resident:
        resident = sum(_proportional_bytes(pid) for pid in pids)
    return counted + resident


def count_descriptors(pids: Iterable[int], limit_bytes: int) -> int:
    """Return the memory behind the descriptors of processes, in bytes; not exact if it is above the limit."""
    counted, pipes = 0, set[str]()
    for pid in pids:
        with contextlib.suppress(OSError):  # ended, or another user's
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):  # closed meanwhile
                    target = os.readlink(f"/proc/{pid}/fd/{name}")
                    if target.startswith("pipe:"):
                        pipes.add(target)
                    counted += _QUEUE_BYTES * target.endswith("inotify")
                    counted += _BYTES_PER_CHARACTER * len(_read(f"/proc/{pid}/fdinfo/{name}"))
                if counted > limit_bytes:
                    return counted
    return counted + len(pipes) * _PIPE_BYTES


def count_uncharged(pids: Sequence[int]) -> int:
    """Return the memory that not even a cgroup counts, in bytes: what waits in netlinks of their own network."""
    inside = next((pid for pid in reversed(pids) if _has_own("net", pid)), None)
    return 0 if inside is None else _count_netlink(inside)


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.readall() or b""
    except OSError:  # ended meanwhile, or another user's
        return b""


def _lines(path: str) -> Iterator[bytes]:
    """Yield the lines of a file that may be long, a part at a time."""
    with contextlib.suppress(OSError), open(path, "rb", buffering=_CHUNK_BYTES) as file:
        yield from file


def _proportional_bytes(pid: int) -> int:
    """The resident memory of a process, where a page of n processes counts as 1/n."""
    return sum(int(size) for size in _PROPORTIONAL.findall(_read(f"/proc/{pid}/smaps_rollup"))) * KIB


def _count_mappings(pid: int, shared: dict[tuple[bytes, bytes], int], limit_bytes: int) -> int:
    """Count the mappings of a process, and add to `shared` the device, inode and size of shared memory."""
    count, most = 0, limit_bytes // _MAPPING_BYTES
    for line in _lines(f"/proc/{pid}/maps"):
        count += 1
        if any(name in line for name in _SHARED_MAPPINGS):
            fields = line.split(None, 5)
            if len(fields) == 6 and fields[5].startswith(_SHARED_MAPPINGS):
                start, _, end = fields[0].partition(b"-")
                size = int(fields[2], 16) + int(end, 16) - int(start, 16)
                key = fields[3], fields[4]
                shared[key] = max(shared.get(key, 0), size)
        if count > most:
            break
    return count


def _count_own_places(pids: Sequence[int], limit_bytes: int) -> int:
    """The memory of folders and sockets that these processes have for themselves."""
    counted = 0
    for name, count in (("mnt", _count_folders), ("net", _count_sockets)):
        inside = next((pid for pid in reversed(pids) if _has_own(name, pid)), None)
        if inside is not None:
            counted += count(inside, limit_bytes)
    return counted


def _has_own(namespace: str, pid: int) -> bool:
    try:
        return os.stat(f"/proc/{pid}/ns/{namespace}").st_ino != os.stat(f"/proc/self/ns/{namespace}").st_ino
    except OSError:  # ended, or another user's
        return False


def _count_folders(pid: int, limit_bytes: int) -> int:
    counted, seen = 0, set[int]()
    for folder in PRIVATE_FOLDERS:
        with contextlib.suppress(OSError):
            place = f"/proc/{pid}/root{folder}"
            device = os.stat(place).st_dev
            # While bubblewrap prepares the sandbox, the program's root is still this machine's.
            if device in seen or device == os.stat("/").st_dev or device == _read_device(folder):
                continue
            seen.add(device)
            found = os.statvfs(place)
            counted += (found.f_blocks - found.f_bfree) * found.f_frsize
            counted += (found.f_files - found.f_ffree) * _ENTRY_BYTES
    return counted


def _read_device(folder: str) -> int | None:
    try:
        return os.stat(folder).st_dev
    except OSError:
        return None


def _count_sockets(pid: int, limit_bytes: int) -> int:
    """Count what the sockets of a network hold, those included that wait in a queue and belong to no process."""
    counted, most = 0, _unix_socket_bytes()
    for line in _lines(f"/proc/{pid}/net/unix"):
        fields = line.split(None, 5)
        counted += most * (_DATAGRAMS if fields[4:5] == [_DATAGRAM] else 1) if fields[0] != b"Num" else 0
        if counted > limit_bytes:
            return counted
    for name in ("tcp", "tcp6", "udp", "udp6"):
        for line in _lines(f"/proc/{pid}/net/{name}"):
            waiting = line.split(None, 5)[4].partition(b":")
            if waiting[1]:
                counted += KIB + int((int(waiting[0], 16) + int(waiting[2], 16)) * _OVERHEAD)
            if counted > limit_bytes:
                return counted
    return counted + _count_netlink(pid)


def _count_netlink(pid: int) -> int:
    counted = 0
    for line in _lines(f"/proc/{pid}/net/netlink"):
        fields = line.split(None, 6)
        counted += int(int(fields[4]) * _OVERHEAD) if fields[4].isdigit() else 0
    return counted


@cache
def _unix_socket_bytes() -> int:
    """The memory that waits at most for the reader of a Unix socket, in pages that are half full."""
    return int(_read("/proc/sys/net/core/wmem_default") or _USUAL_SOCKET_BYTES) * 5 // 2


@cache
def total_memory() -> int:
    """The memory of this machine, in bytes."""
    return _memory_figure("MemTotal")


def available_memory() -> int:
    """The memory that programs of this machine can still get, in bytes."""
    return _memory_figure("MemAvailable")


def _memory_figure(name: str) -> int:
    found = re.search(rb"^%b:\s+(\d+)" % name.encode(), _read("/proc/meminfo"), re.MULTILINE)
    return int(found[1]) * KIB if found is not None else 0
