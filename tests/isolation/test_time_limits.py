"""Time limits, with injected times of the program."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping

import pytest

from nemo_gym.isolation import time_limits
from nemo_gym.isolation.time_limits import (
    CpuLimit,
    Ending,
    ProcessTimes,
    ProgramTimes,
    WallLimit,
)
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


def test_the_next_check_cannot_be_foreseen() -> None:
    limit = CpuLimit(10, lambda: ProcessTimes(0, 0))
    found = {limit.next_check_s(0) for _ in range(100)}
    assert len(found) > 90
    assert all(0.25 <= seconds <= 0.75 for seconds in found)


def compute(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() < began + seconds:
        pass


def start(seconds: float) -> int:
    """Start a child that computes, and ends when it is killed."""
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        compute(seconds)
        os.write(tell, b"x")
        time.sleep(1000)
    os.read(told, 1)
    os.close(told)
    os.close(tell)
    return child


def test_the_times_of_a_program_include_those_of_its_reaped_children() -> None:
    times = ProgramTimes(lambda: [os.getpid()])
    before = times.read().cpu_s
    child = os.fork()
    if child == 0:
        compute(0.3)
        os._exit(0)
    os.waitpid(child, 0)
    assert times.read().cpu_s - before >= 0.25
    assert ProgramTimes(lambda: [-1]).read() == ProcessTimes(0, 0)


@pytest.mark.parametrize("is_reaped", [True, False])
def test_the_time_of_an_ended_process_that_was_seen_counts_once(is_reaped: bool) -> None:
    pids = [os.getpid()]
    times = ProgramTimes(lambda: pids)
    before = times.read().cpu_s
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL if is_reaped else signal.SIG_IGN)
    try:
        child = start(0.4)
        pids.append(child)
        assert times.read().cpu_s - before >= 0.35
        os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child, 0)
    finally:
        signal.signal(signal.SIGCHLD, handler)
    own = time.process_time()
    assert 0.35 <= times.read().cpu_s - before <= 0.6 + own, "neither lost nor counted twice"


def test_the_kernels_count_comes_before_that_of_processes() -> None:
    counted: list[float | None] = [7.0, None]
    times = ProgramTimes(lambda: [os.getpid()], lambda: counted.pop(0))
    assert times.read().cpu_s == 7
    assert times.read().cpu_s != 7


class Threads:
    """The delays of the threads of an imaginary program."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.delays_s: dict[str, float] = {}
        self.runnable: set[str] = set()
        self.now = 100.0
        monkeypatch.setattr(time_limits, "read_thread_times", self._list)
        monkeypatch.setattr(time_limits, "is_runnable", lambda thread: thread[1] in self.runnable)
        self.times = ProgramTimes(list, clock=lambda: self.now)
        self.times.read()

    def _list(self, pids: list[int]) -> Iterator[tuple[tuple[int, str], tuple[int, int]]]:
        for name, delay_s in self.delays_s.items():
            yield (1, name), (0, int(delay_s * 1e9))

    def pass_time(self, seconds: float, delays_s: Mapping[str, float], *, runnable: str = "") -> float:
        """Let time pass in which threads are delayed, and return all delays that count."""
        self.now += seconds
        self.runnable = set(runnable.split())
        for name, delay_s in delays_s.items():
            self.delays_s[name] = self.delays_s.get(name, 0) + delay_s
        return round(self.times.read().starved_s, 6)


def test_a_thread_is_starved_while_it_waits_for_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(monkeypatch)
    assert threads.pass_time(1, {"a": 0.4}) == 0.4
    assert threads.pass_time(1, {"a": 0.9}, runnable="a") == 1.3


def test_threads_that_sleep_do_not_starve_by_waking_together(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(monkeypatch)
    herd = {f"t{number}": 0.1 for number in range(50)}
    assert threads.pass_time(1, herd) == 0.1
    assert threads.pass_time(1, herd) == 0.2


def test_threads_that_take_turns_starve_together(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(monkeypatch)
    assert threads.pass_time(1, {"a": 0.4, "b": 0.5}, runnable="b") == 0.9
    assert threads.pass_time(1, {"a": 0.8, "b": 0.8}, runnable="a") == 1.9, (
        "no more than the time that passed"
    )


def test_the_delay_of_a_thread_that_ended_still_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = Threads(monkeypatch)
    assert threads.pass_time(1, {"a": 0.9}) == 0.9
    del threads.delays_s["a"]
    assert threads.pass_time(1, {"b": 0.5}) == 1.4
    threads.delays_s["b"] = 0.0
    assert threads.pass_time(1, {}) == 1.4, "another thread with its number"
