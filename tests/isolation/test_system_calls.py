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


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_a_filter_is_a_list_of_instructions(machine: str) -> None:
    instructions = call_filter(machine)
    assert instructions is not None
    assert len(instructions) % 8 == 0


def test_an_unknown_machine_has_no_filter() -> None:
    assert call_filter("pdp11") is None
