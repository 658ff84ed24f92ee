"""The system calls that a confined program may not make, as a seccomp filter.

Denied calls fail with EPERM. They would let a program leave its limits:

    namespaces       unshare, clone and setns with a user namespace, in which it would have capabilities again
    hidden memory    memory that no process maps and no descriptor shows: memfd_create, memfd_secret, vmsplice (pages in
                     pipes), messages and semaphores of System V, POSIX queues, extended attributes, keys, rules of
                     Landlock, rings of io_uring and of aio, BPF, performance counters. io_uring makes calls that no
                     filter sees; a process that is not dumpable hides its memory map
    large buffers    pipes and sockets keep their default sizes: requests for larger sockets are ignored, as the kernel
                     ignores what is above its limit
    other sockets    only Unix sockets, TCP, UDP and the netlink of routes exist: others hold memory that nothing
                     counts, and so would a TCP socket that becomes one of another protocol
    low priority     with a low priority its run-queue delay would look as if the machine were busy; so it would if the
                     program could choose which others may share a core with it
"""

from __future__ import annotations

import errno
import os
import platform
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE, PR_SCHED_CORE = 4, 62

F_SETPIPE_SZ = 1031
SOL_SOCKET = 1
BUFFER_SIZES = (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF, and the two that need a capability."""
TCP_ULP = 31
"""This option of TCP makes a socket one of another protocol, such as SMC or TLS."""

_LOAD_WORD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP_IF_EQUAL, _JUMP_IF_GREATER_OR_EQUAL, _JUMP_IF_ANY_BIT = 0x15, 0x35, 0x45
_CALL, _ARCHITECTURE = 0, 4
_ARGUMENTS = tuple(range(16, 64, 8))
"""Offsets in `struct seccomp_data`: the low words of the arguments."""
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_X32_CALLS = 0x40000000
"""The calls of the x32 ABI of x86-64 start at this number."""
_SOCKET_TYPES = 0xF
"""The bits of a socket's type; the others are flags."""


class _Sockets(NamedTuple):
    """The sockets of a family."""

    types: tuple[int, ...]
    protocols: tuple[int, ...]


_INTERNET = _Sockets((socket.SOCK_STREAM, socket.SOCK_DGRAM), (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP))
_AF_NETLINK, _NETLINK_ROUTE = 16, 0
_SOCKETS: Mapping[int, _Sockets] = {
    socket.AF_UNIX: _Sockets(
        (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET), (0, socket.AF_UNIX)
    ),
    socket.AF_INET: _INTERNET,
    socket.AF_INET6: _INTERNET,
    # Libraries list the network's interfaces by it.
    _AF_NETLINK: _Sockets((socket.SOCK_RAW, socket.SOCK_DGRAM), (_NETLINK_ROUTE,)),
}
"""By their families. Type and protocol are both checked: without a protocol, the type can choose SCTP."""


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
_OWNERSHIP = (
    *("chown", "fchown", "fchownat", "lchown", "mknod", "mknodat", "capset", "setgroups"),
    *("setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setfsuid", "setfsgid"),
)
_DENIED_TO_ROOT = (
    *("io_uring_setup", "bpf", "perf_event_open", "userfaultfd", "fanotify_init", "memfd_secret"),
    *("add_key", "request_key", "keyctl", "setns"),
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
            "capset": 126,
            "chown": 92,
            "clone": 56,
            "fanotify_init": 300,
            "fchown": 93,
            "fchownat": 260,
            "fcntl": 72,
            "fsetxattr": 190,
            "io_setup": 206,
            "keyctl": 250,
            "lchown": 94,
            "lsetxattr": 189,
            "memfd_create": 319,
            "mknod": 133,
            "mknodat": 259,
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
            "setfsgid": 123,
            "setfsuid": 122,
            "setgid": 106,
            "setgroups": 116,
            "setns": 308,
            "setpriority": 141,
            "setregid": 114,
            "setresgid": 119,
            "setresuid": 117,
            "setreuid": 113,
            "setsockopt": 54,
            "setuid": 105,
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
            "capset": 91,
            "clone": 220,
            "fanotify_init": 262,
            "fchown": 55,
            "fchownat": 54,
            "fcntl": 25,
            "fsetxattr": 7,
            "io_setup": 0,
            "keyctl": 219,
            "lsetxattr": 6,
            "memfd_create": 279,
            "mknodat": 33,
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
            "setfsgid": 152,
            "setfsuid": 151,
            "setgid": 144,
            "setgroups": 159,
            "setns": 268,
            "setpriority": 140,
            "setregid": 143,
            "setresgid": 149,
            "setresuid": 147,
            "setreuid": 145,
            "setsockopt": 208,
            "setuid": 146,
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


def root_call_filter(machine: str | None = None) -> bytes | None:
    """The filter of a sandbox whose only user is its root; None for a machine whose calls are unknown here.

    Calls that change an owner, become another user or make a device do nothing and succeed: package managers and
    `useradd` need them, and there is no other user. Such a sandbox has a memory limit of the kernel.
    """
    known = _MACHINES.get(machine or platform.machine())
    return None if known is None else b"".join(_root_instructions(known))


def write_filter(instructions: bytes) -> int:
    """Return the descriptor of a new file with a filter; bubblewrap reads it to its end."""
    file = os.memfd_create("filter")
    os.write(file, instructions)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def _root_instructions(machine: _Machine) -> Iterator[bytes]:
    calls = machine.calls
    yield from _beginning(machine)
    for name in _OWNERSHIP:
        if name in calls:  # newer machines have fewer
            yield from _if_called(calls[name], [_fail(0)])
    for name in _DENIED_TO_ROOT:
        yield from _if_called(calls[name], [_fail(errno.EPERM)])
    for name in ("socket", "socketpair"):
        yield from _if_called(calls[name], _allow_sockets())
    yield _instruction(_RETURN, _ALLOW)


def _beginning(machine: _Machine) -> Iterator[bytes]:
    """Instructions that refuse the calls of other ABIs."""
    yield _instruction(_LOAD_WORD, _ARCHITECTURE)
    yield _instruction(_JUMP_IF_EQUAL, machine.architecture, 1, 0)
    yield _instruction(_RETURN, _KILL)
    yield _instruction(_LOAD_WORD, _CALL)
    yield _instruction(_JUMP_IF_GREATER_OR_EQUAL, _X32_CALLS, 0, 1)
    yield _fail(errno.ENOSYS)


def _instructions(machine: _Machine) -> Iterator[bytes]:
    calls = machine.calls
    yield from _beginning(machine)
    # The arguments of clone3 lie in memory that a filter cannot read; without it, libraries use clone.
    yield from _if_called(calls["clone3"], [_fail(errno.ENOSYS)])
    for name in _DENIED:
        yield from _if_called(calls[name], [_fail(errno.EPERM)])
    for name in ("clone", "unshare"):
        yield from _if_called(calls[name], _if_argument(0, _JUMP_IF_ANY_BIT, [CLONE_NEWUSER], errno.EPERM))
    options = (PR_SET_DUMPABLE, PR_SCHED_CORE)
    yield from _if_called(calls["prctl"], _if_argument(0, _JUMP_IF_EQUAL, options, errno.EPERM))
    yield from _if_called(calls["fcntl"], _if_argument(1, _JUMP_IF_EQUAL, [F_SETPIPE_SZ], errno.EPERM))
    of_sockets = [
        *_if_argument_is(1, SOL_SOCKET, _if_argument(2, _JUMP_IF_EQUAL, BUFFER_SIZES, 0)),
        *_if_argument_is(
            1, socket.IPPROTO_TCP, _if_argument(2, _JUMP_IF_EQUAL, [TCP_ULP], errno.ENOPROTOOPT)
        ),
    ]
    yield from _if_called(calls["setsockopt"], [*of_sockets, _instruction(_RETURN, _ALLOW)])
    for name in ("socket", "socketpair"):
        yield from _if_called(calls[name], _allow_sockets())
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


def _if_argument_is(position: int, value: int, body: list[bytes]) -> list[bytes]:
    """Instructions that run `body`, which returns, if an argument is `value`."""
    load = _instruction(_LOAD_WORD, _ARGUMENTS[position])
    return [load, _instruction(_JUMP_IF_EQUAL, value, 0, len(body)), *body]


def _allow_sockets() -> list[bytes]:
    """Allow the sockets of `_SOCKETS`, and return with an error for others."""
    body = []
    for family, (types, protocols) in _SOCKETS.items():
        one = [_instruction(_LOAD_WORD, _ARGUMENTS[1]), _instruction(_AND, _SOCKET_TYPES)]
        one += [_instruction(_JUMP_IF_EQUAL, kind, len(types) - place) for place, kind in enumerate(types)]
        one += [_fail(errno.ESOCKTNOSUPPORT), _instruction(_LOAD_WORD, _ARGUMENTS[2])]
        for protocol in protocols:
            one += [_instruction(_JUMP_IF_EQUAL, protocol, 0, 1), _instruction(_RETURN, _ALLOW)]
        body += _if_argument_is(0, family, [*one, _fail(errno.EPROTONOSUPPORT)])
    return [*body, _fail(errno.EAFNOSUPPORT)]


def _fail(error: int) -> bytes:
    return _instruction(_RETURN, _FAIL | error)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
