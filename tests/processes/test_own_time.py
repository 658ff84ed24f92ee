"""Own time on a machine that is busy or not: the figures come from the kernel, so only relations are tested."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from nemo_gym.processes.own_time import OwnTime
from tests.waiting import until, wait_until


@pytest.fixture
def spinning() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Three processes that share one core."""
    core = min(os.sched_getaffinity(0))
    code = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    yield processes
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts the time without a core")
async def test_waiting_for_a_core_does_not_count(spinning: list[subprocess.Popen[bytes]]) -> None:
    stopwatch = OwnTime(spinning[0].pid)
    await until(lambda: stopwatch.wall_s - stopwatch.read().own > 0.5)
    own, computing, is_runnable = stopwatch.read()
    assert is_runnable
    assert 0 < computing <= stopwatch.wall_s
    assert own < stopwatch.wall_s


def test_sleeping_counts_but_is_no_computing() -> None:
    sleeper = subprocess.Popen(["sleep", "1000"])
    stopwatch = OwnTime(sleeper.pid)
    wait_until(lambda: stopwatch.read().own > 0.3)
    assert stopwatch.read().computing < 0.3
    assert not stopwatch.read().is_runnable
    sleeper.kill()
    sleeper.wait()


def test_a_process_that_has_ended_has_wall_clock_time() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    now = iter([10.0, 12.0])
    assert OwnTime(ended.pid, lambda: next(now)).read() == (2.0, 0.0, False)
