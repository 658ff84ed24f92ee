"""The system calls that a confined program may not make, as a seccomp filter.

Denied calls fail with EPERM. They would let a program leave its limits:

    namespaces       unshare, clone and setns with a user namespace, in which it would have capabilities again
    hidden memory    memory that no process maps and no descriptor shows: memfd_create, memfd_secret, vmsplice (pages in
                     pipes), messages and semaphores of System V, POSIX queues, extended attributes, keys, rules of
                     Landlock, rings of io_uring and of aio, BPF, performance counters. io_uring makes calls that no
                     filter sees; a process that is not dumpable hides its memory map
    large buffers    pipes and sockets keep their default sizes: requests for larger sockets are ignored, as the kernel
                     ignores what is above its limit. Only Unix, IP and netlink sockets exist
    low priority     with a low priority its run-queue delay would look as if the machine were busy
"""

from __future__ import annotations

import errno
import platform
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4

F_SETPIPE_SZ = 1031
SOL_SOCKET = 1
BUFFER_SIZES = (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF, and the two that need a capability."""

_LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_GREATER_OR_EQUAL, _JUMP_IF_ANY_BIT, _RETURN = (
    0x20,
    0x15,
    0x35,
    0x45,
    0x06,
)
_CALL, _ARCHITECTURE = 0, 4
_ARGUMENTS = tuple(range(16, 64, 8))
"""Offsets in `struct seccomp_data`: the low words of the arguments."""
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_X32_CALLS = 0x40000000
"""The calls of the x32 ABI of x86-64 start at this number."""
_SOCKET_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, 16)
"""The last is AF_NETLINK, by which libraries list the network's interfaces."""


class _Machine(NamedTuple):
    architecture: int
    calls: Mapping[str, int]


_DENIED = (
    *("io_uring_setup", "io_setup", "bpf", "perf_event_open", "userfaultfd", "fanotify_init"),
    *("memfd_create", "memfd_secret", "vmsplice", "landlock_create_ruleset"),
    *("msgget", "msgsnd", "semget", "shmget", "mq_open", "add_key", "request_key", "keyctl"),
    *("setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("sched_setattr", "sched_setparam", "sched_setscheduler", "setns", "setpriority"),
)
_SHARED_CALLS = {
    "clone3": 435,
    "io_uring_setup": 425,
    "landlock_create_ruleset": 444,
    "memfd_secret": 447,
    "setxattrat": 463,
}
_MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(
        0xC000003E,
        {
            **_SHARED_CALLS,
            "add_key": 248,
            "bpf": 321,
            "clone": 56,
            "fanotify_init": 300,
            "fcntl": 72,
            "fsetxattr": 190,
            "io_setup": 206,
            "keyctl": 250,
            "lsetxattr": 189,
            "memfd_create": 319,
            "mq_open": 240,
            "msgget": 68,
            "msgsnd": 69,
            "perf_event_open": 298,
            "prctl": 157,
            "request_key": 249,
            "sched_setattr": 314,
            "sched_setparam": 142,
            "sched_setscheduler": 144,
            "semget": 64,
            "setns": 308,
            "setpriority": 141,
            "setsockopt": 54,
            "setxattr": 188,
            "shmget": 29,
            "socket": 41,
            "socketpair": 53,
            "unshare": 272,
            "userfaultfd": 323,
            "vmsplice": 278,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        {
            **_SHARED_CALLS,
            "add_key": 217,
            "bpf": 280,
            "clone": 220,
            "fanotify_init": 262,
            "fcntl": 25,
            "fsetxattr": 7,
            "io_setup": 0,
            "keyctl": 219,
            "lsetxattr": 6,
            "memfd_create": 279,
            "mq_open": 180,
            "msgget": 186,
            "msgsnd": 189,
            "perf_event_open": 241,
            "prctl": 167,
            "request_key": 218,
            "sched_setattr": 274,
            "sched_setparam": 118,
            "sched_setscheduler": 119,
            "semget": 190,
            "setns": 268,
            "setpriority": 140,
            "setsockopt": 208,
            "setxattr": 5,
            "shmget": 194,
            "socket": 198,
            "socketpair": 199,
            "unshare": 97,
            "userfaultfd": 282,
            "vmsplice": 75,
        },
    ),
}


def call_filter(machine: str | None = None) -> bytes | None:
    """The filter as an array of `struct sock_filter`; None for a machine whose calls are unknown here."""
    known = _MACHINES.get(machine or platform.machine())
    return None if known is None else b"".join(_instructions(known))


def _instructions(machine: _Machine) -> Iterator[bytes]:
    calls = machine.calls
    yield _instruction(_LOAD_WORD, _ARCHITECTURE)
    yield _instruction(_JUMP_IF_EQUAL, machine.architecture, 1, 0)
    yield _instruction(_RETURN, _KILL)
    yield _instruction(_LOAD_WORD, _CALL)
    yield _instruction(_JUMP_IF_GREATER_OR_EQUAL, _X32_CALLS, 0, 1)
    yield _fail(errno.ENOSYS)
    # The arguments of clone3 lie in memory that a filter cannot read; without it, libraries use clone.
    yield from _if_called(calls["clone3"], [_fail(errno.ENOSYS)])
    for name in _DENIED:
        yield from _if_called(calls[name], [_fail(errno.EPERM)])
    for name in ("clone", "unshare"):
        yield from _if_called(calls[name], _if_argument(0, _JUMP_IF_ANY_BIT, [CLONE_NEWUSER], errno.EPERM))
    yield from _if_called(calls["prctl"], _if_argument(0, _JUMP_IF_EQUAL, [PR_SET_DUMPABLE], errno.EPERM))
    yield from _if_called(calls["fcntl"], _if_argument(1, _JUMP_IF_EQUAL, [F_SETPIPE_SZ], errno.EPERM))
    ignored = _if_argument(2, _JUMP_IF_EQUAL, BUFFER_SIZES, 0)
    yield from _if_called(calls["setsockopt"], _if_argument_is_not(1, SOL_SOCKET) + ignored)
    for name in ("socket", "socketpair"):
        yield from _if_called(calls[name], _unless_argument(0, _SOCKET_FAMILIES, errno.EAFNOSUPPORT))
    yield _instruction(_RETURN, _ALLOW)


def _if_called(call: int, body: list[bytes]) -> Iterator[bytes]:
    """Instructions that run `body`, which returns, for a call."""
    yield _instruction(_JUMP_IF_EQUAL, call, 0, len(body))
    yield from body


def _if_argument(position: int, comparison: int, values: Iterable[int], error: int) -> list[bytes]:
    """Return with an error, 0 for an ignored call, if an argument compares to one of `values`; else allow."""
    body = [_instruction(_LOAD_WORD, _ARGUMENTS[position])]
    for value in values:
        body += [_instruction(comparison, value, 0, 1), _fail(error)]
    return [*body, _instruction(_RETURN, _ALLOW)]


def _unless_argument(position: int, values: Iterable[int], error: int) -> list[bytes]:
    """Return with an error unless an argument is one of `values`."""
    body = [_instruction(_LOAD_WORD, _ARGUMENTS[position])]
    for value in values:
        body += [_instruction(_JUMP_IF_EQUAL, value, 0, 1), _instruction(_RETURN, _ALLOW)]
    return [*body, _fail(error)]


def _if_argument_is_not(position: int, value: int) -> list[bytes]:
    """Allow a call unless an argument is `value`; then go on."""
    return [
        _instruction(_LOAD_WORD, _ARGUMENTS[position]),
        _instruction(_JUMP_IF_EQUAL, value, 1, 0),
        _instruction(_RETURN, _ALLOW),
    ]


def _fail(error: int) -> bytes:
    return _instruction(_RETURN, _FAIL | error)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
