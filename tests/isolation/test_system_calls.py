"""Calls with which a program would leave its limits are denied."""

from __future__ import annotations

import errno
import socket

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
        "libc.prctl(62, 1, 0, 0, 0)",
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


UNIX, IP, IP6, NETLINK = (
    int(family) for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
)
STREAM, DGRAM, RAW, SEQPACKET, DCCP = 1, 2, 3, 5, 6
FLAGS = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
TCP, UDP, ROUTE = 6, 17, 0
USUAL = [
    *(
        (UNIX, kind, protocol)
        for kind in (STREAM, DGRAM, RAW, SEQPACKET, STREAM | FLAGS)
        for protocol in (0, 1)
    ),
    *((IP, kind, protocol) for kind in (STREAM, STREAM | FLAGS) for protocol in (0, TCP)),
    *((IP, kind, protocol) for kind in (DGRAM, DGRAM | FLAGS) for protocol in (0, UDP)),
    *((NETLINK, kind, ROUTE) for kind in (RAW, DGRAM, RAW | FLAGS)),
]
OF_UNUSUAL_FAMILY = [
    *((socket.AF_ALG, SEQPACKET, 0), (socket.AF_VSOCK, STREAM, 0), (socket.AF_TIPC, STREAM, 0)),
    *((socket.AF_PACKET, RAW, 3), (43, STREAM, 0), (44, DGRAM, 0), (21, SEQPACKET, 0), (41, DGRAM, 0)),
    (1 << 16 | IP, STREAM, 0),
]
"""Those of the cipher interface, of virtual machines, TIPC, Ethernet, SMC, XDP, RDS and KCM."""
OF_UNUSUAL_TYPE = [
    *((IP, SEQPACKET, 0), (IP6, SEQPACKET, 132), (IP, DCCP, 0), (IP6, DCCP, 33)),
    *((IP, RAW, 1), (IP, RAW | FLAGS, 255), (IP, 10, 0), (NETLINK, STREAM, 0), (UNIX, 4, 0)),
]
OF_UNUSUAL_PROTOCOL = [
    *((family, STREAM, protocol) for family in (IP, IP6) for protocol in (262, 132, 256)),
    *((IP, STREAM | FLAGS, 262), (IP, DGRAM, 136), (IP6, DGRAM, 136), (IP, DGRAM, 1), (IP6, DGRAM, 58)),
    *((IP, DGRAM, 115), (IP, STREAM, -1), (IP, STREAM, 1 << 16 | TCP)),
    *((NETLINK, RAW, protocol) for protocol in (2, 4, 6, 9, 11, 12, 15, 16)),
]
"""MPTCP, SCTP, SMC, UDP-Lite, ping, L2TP; netlinks by which programs can also talk to each other."""


async def test_only_sockets_whose_memory_is_counted_exist(sandbox: ConfinedRunner) -> None:
    groups = [
        *((case, 0) for case in USUAL),
        *((case, errno.EAFNOSUPPORT) for case in OF_UNUSUAL_FAMILY),
        *((case, errno.ESOCKTNOSUPPORT) for case in OF_UNUSUAL_TYPE),
        *((case, errno.EPROTONOSUPPORT) for case in OF_UNUSUAL_PROTOCOL),
    ]
    cases = [tuple(int(number) for number in case) for case, _ in groups]
    code = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
for family, kind, protocol in {cases!r}:
    made = libc.socket(family, kind, protocol)
    print(0 if made >= 0 else ctypes.get_errno())
    if made >= 0:
        os.close(made)
"""
    found = (await run(sandbox, code)).stdout.split()
    assert dict(zip(cases, found, strict=True)) == {
        tuple(map(int, case)): str(error).encode() for case, error in groups
    }


async def test_tcp_stays_tcp(sandbox: ConfinedRunner) -> None:
    code = """
import errno, socket
with socket.create_server(("127.0.0.1", 0)) as one:
    for name in (b"tls", b"smc", b"mptcp", b"espintcp"):
        try:
            one.setsockopt(socket.IPPROTO_TCP, 31, name)
            print("changed")
        except OSError as error:
            print(errno.errorcode[error.errno])
"""
    assert (await run(sandbox, code)).stdout.split() == [b"ENOPROTOOPT"] * 4


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_filter_is_a_list_of_instructions(machine: str) -> None:
    instructions = call_filter(machine)
    assert instructions is not None
    assert len(instructions) % 8 == 0


def test_an_unknown_machine_has_no_filter() -> None:
    assert call_filter("pdp11") is None
