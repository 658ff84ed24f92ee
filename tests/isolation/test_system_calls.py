"""Calls with which a program would leave its limits are denied."""

from __future__ import annotations

import pytest

from nemo_gym.isolation.execution import ConfinedRunner
from nemo_gym.isolation.system_calls import call_filter
from tests.isolation.confined import run


@pytest.mark.parametrize(
    "call",
    [
        "os.memfd_create('x')",
        "libc.shmget(0, 1 << 20, 0o1600)",
        "libc.msgget(0, 0o1600)",
        "libc.msgsnd(0, None, 0, 0)",
        "libc.semget(0, 100, 0o1600)",
        "libc.mq_open(b'/x', 0o102, 0o600, None)",
        "libc.setxattr(b'/tmp', b'user.x', b'x', 1, 0)",
        "libc.lsetxattr(b'/tmp', b'user.x', b'x', 1, 0)",
        "libc.fsetxattr(0, b'user.x', b'x', 1, 0)",
        "libc.syscall(463, -100, b'/tmp', 0, b'user.x', None, 16)",
        "libc.vmsplice(1, None, 0, 0)",
        "libc.fcntl(1, 1031, 1 << 20)",
        "libc.fanotify_init(0, 0)",
        "libc.syscall(425, 8, None)",
        "libc.syscall(444, None, 0, 1)",
        "libc.unshare(0x10000000)",
        "libc.setns(0, 0)",
        "libc.prctl(4, 0, 0, 0, 0)",
        "os.nice(5)",
        "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))",
    ],
)
async def test_calls_that_leave_the_limits_are_denied(sandbox: ConfinedRunner, call: str) -> None:
    code = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
try:
    result, error = {call}, ctypes.get_errno()
except OSError as raised:
    result, error = -1, raised.errno
print(result, error)
"""
    assert (await run(sandbox, code)).stdout == b"-1 1\n"


async def test_sockets_keep_their_default_size(sandbox: ConfinedRunner) -> None:
    code = """
import socket
for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
    with socket.socket(socket.AF_UNIX) as one:
        before = one.getsockopt(socket.SOL_SOCKET, option)
        one.setsockopt(socket.SOL_SOCKET, option, 10 * before)
        print(one.getsockopt(socket.SOL_SOCKET, option) == before)
with socket.socket() as one:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR))
    print(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
"""
    assert (await run(sandbox, code)).stdout.split() == [b"True", b"True", b"1", b"1"]


async def test_only_usual_sockets_exist(sandbox: ConfinedRunner) -> None:
    code = """
import errno, socket
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_NETLINK, socket.AF_ALG, socket.AF_VSOCK, socket.AF_TIPC):
    try:
        socket.socket(family, socket.SOCK_RAW if family == socket.AF_NETLINK else socket.SOCK_SEQPACKET
            if family == socket.AF_ALG else socket.SOCK_STREAM).close()
        print("made")
    except OSError as error:
        print(errno.errorcode[error.errno])
"""
    assert (await run(sandbox, code)).stdout.split() == [b"made"] * 3 + [b"EAFNOSUPPORT"] * 3


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_filter_is_a_list_of_instructions(machine: str) -> None:
    instructions = call_filter(machine)
    assert instructions is not None
    assert len(instructions) % 8 == 0


def test_an_unknown_machine_has_no_filter() -> None:
    assert call_filter("pdp11") is None
