"""Time limits, with injected times of the program."""

from __future__ import annotations

import os
import time

import pytest

from nemo_gym.isolation.time_limits import CpuLimit, Ending, ProcessTimes, WallLimit, times_of
from nemo_gym.processes.workers import available_cores


class Program:
    """The times of an imaginary program."""

    def __init__(self) -> None:
        self.times = ProcessTimes(1.0, 0.5)

    def spend(self, cpu_s: float = 0.0, starved_s: float = 0.0) -> None:
        self.times = ProcessTimes(self.times.cpu_s + cpu_s, self.times.starved_s + starved_s)


@pytest.mark.parametrize(
    ("waited_s", "cpu_s", "starved_s", "ending"),
    [
        (9, 9, 0, None),
        (10, 10, 0, Ending.TIMED_OUT),
        (40, 10, 30, Ending.TIMED_OUT),
        (20, 1, 0, None),
        (21, 1, 0, Ending.BLOCKED),
        (40, 1, 30, None),
        (60, 1, 30, Ending.BLOCKED),
        (104, 3, 100, None),
        (105, 3, 100, Ending.STARVED),
    ],
)
def test_only_its_own_time_counts_against_a_program(
    waited_s: float, cpu_s: float, starved_s: float, ending: Ending | None
) -> None:
    program = Program()
    limit = CpuLimit(10, lambda: program.times)
    program.spend(cpu_s, starved_s)
    assert limit.check(waited_s, has_answered=False) is ending


def test_an_answer_counts_unless_it_took_too_much_cpu_time() -> None:
    program = Program()
    limit = CpuLimit(10, lambda: program.times)
    assert limit.check(1000, has_answered=True) is None
    program.spend(10)
    assert limit.check(1000, has_answered=True) is Ending.TIMED_OUT


def test_waits_add_up() -> None:
    program = Program()
    limit = CpuLimit(10, lambda: program.times)
    for _ in range(2):
        assert limit.check(10, has_answered=False) is None
        limit.settle(10)
    assert limit.check(1, has_answered=False) is Ending.BLOCKED


def test_a_short_wait_is_not_measured() -> None:
    measured = 0

    def times() -> ProcessTimes:
        nonlocal measured
        measured += 1
        return ProcessTimes(0, 0)

    limit = CpuLimit(10, times)
    limit.check(9 / available_cores(), has_answered=False)
    assert measured == 1, "at the beginning"


def test_a_wall_limit_applies_to_each_wait_without_an_answer() -> None:
    limit = WallLimit(2)
    assert limit.check(1.9, has_answered=False) is None
    assert limit.check(2, has_answered=False) is Ending.TIMED_OUT
    assert limit.check(2, has_answered=True) is None
    assert limit.next_check_s(0.5) == 1.5


def test_the_times_of_a_process_include_those_of_its_reaped_children() -> None:
    before = times_of([os.getpid()]).cpu_s
    child = os.fork()
    if child == 0:
        while time.process_time() < 0.3:
            pass
        os._exit(0)
    os.waitpid(child, 0)
    assert times_of([os.getpid()]).cpu_s >= before + 0.25
    assert times_of([-1]) == ProcessTimes(0, 0)
