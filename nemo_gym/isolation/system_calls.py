"""The system calls that a confined program may not make, as a seccomp filter.

Denied calls fail with EPERM. They would let a program leave its limits:

    namespaces       unshare, clone and setns with a user namespace, in which it would have capabilities again
    hidden memory    memfd_create, memfd_secret and shmget make memory that no process maps; io_uring makes calls that
                     no filter sees; a process that is not dumpable hides its memory map
    low priority     with a low priority its run-queue delay would look as if the machine were busy
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

CLONE_NEWUSER = 0x10000000
PR_SET_DUMPABLE = 4

_LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_GREATER_OR_EQUAL, _JUMP_IF_ANY_BIT, _RETURN = (
    0x20,
    0x15,
    0x35,
    0x45,
    0x06,
)
_CALL, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`."""
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_X32_CALLS = 0x40000000
"""The calls of the x32 ABI of x86-64 start at this number."""


class _Machine(NamedTuple):
    architecture: int
    calls: Mapping[str, int]


_SHARED_CALLS = {
    "clone3": 435,
    "io_uring_setup": 425,
    "memfd_secret": 447,
}
_MACHINES: Mapping[str, _Machine] = {
    "x86_64": _Machine(
        0xC000003E,
        {
            **_SHARED_CALLS,
            "clone": 56,
            "memfd_create": 319,
            "prctl": 157,
            "sched_setattr": 314,
            "sched_setparam": 142,
            "sched_setscheduler": 144,
            "setns": 308,
            "setpriority": 141,
            "shmget": 29,
            "unshare": 272,
        },
    ),
    "aarch64": _Machine(
        0xC00000B7,
        {
            **_SHARED_CALLS,
            "clone": 220,
            "memfd_create": 279,
            "prctl": 167,
            "sched_setattr": 274,
            "sched_setparam": 118,
            "sched_setscheduler": 119,
            "setns": 268,
            "setpriority": 140,
            "shmget": 194,
            "unshare": 97,
        },
    ),
}
_DENIED = (
    "io_uring_setup",
    "memfd_create",
    "memfd_secret",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "setns",
    "setpriority",
    "shmget",
)


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
    yield from _deny(calls["clone3"], errno.ENOSYS)
    for name in _DENIED:
        yield from _deny(calls[name], errno.EPERM)
    for name in ("clone", "unshare"):
        yield from _deny_argument(calls[name], _JUMP_IF_ANY_BIT, CLONE_NEWUSER)
    yield from _deny_argument(calls["prctl"], _JUMP_IF_EQUAL, PR_SET_DUMPABLE)
    yield _instruction(_RETURN, _ALLOW)


def _deny(call: int, error: int) -> Iterator[bytes]:
    yield _instruction(_JUMP_IF_EQUAL, call, 0, 1)
    yield _fail(error)


def _deny_argument(call: int, comparison: int, value: int) -> Iterator[bytes]:
    """Deny a call if its first argument compares to `value`."""
    yield _instruction(_JUMP_IF_EQUAL, call, 0, 4)
    yield _instruction(_LOAD_WORD, _FIRST_ARGUMENT)
    yield _instruction(comparison, value, 0, 1)
    yield _fail(errno.EPERM)
    yield _instruction(_RETURN, _ALLOW)


def _fail(error: int) -> bytes:
    return _instruction(_RETURN, _FAIL | error)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)
