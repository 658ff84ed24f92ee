"""A closed loop measures the load, not its own beginning and end."""

from __future__ import annotations

import asyncio

import pytest
from multidict import CIMultiDict

from nemo_gym.failures import TransportError
from nemo_gym.transport import Reply
from perf.load import ClosedLoop, Windows

NONE: CIMultiDict[str] = CIMultiDict()
SCORED = Reply(200, NONE, b'{"reward": 1.0}')


class Agent:
    """Answers after a while; the first attempts take longer."""

    def __init__(self, seconds: float, first: float = 0.0, answers: tuple[Reply, ...] = (SCORED,)) -> None:
        self.seconds, self.first, self.answers = seconds, first, answers
        self.asked = self.in_flight = self.most_in_flight = 0

    async def attempt(self) -> Reply:
        answer = self.answers[self.asked % len(self.answers)]
        self.asked += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.first if self.asked <= 8 else self.seconds)
        finally:
            self.in_flight -= 1
        return answer


async def test_windows_are_whole_multiples_of_the_number_in_flight_without_ramp_and_tail() -> None:
    agent = Agent(0.01, first=0.3)
    measured = await ClosedLoop(agent.attempt, 8).measured({}, Windows(count=2, least_s=0.05))
    assert agent.most_in_flight == 8
    assert agent.in_flight == 0, "the load ends with the measurement"
    assert len(measured.windows) == 2
    for window in measured.windows:
        assert window.attempts >= 8
        assert window.failed == 0
        assert window.latencies == sorted(window.latencies)
        assert window.percentile(1.0) < 0.25, "the first, slow attempts are in no window"


async def test_attempts_that_are_not_scored_one_are_counted() -> None:
    answers = (SCORED, Reply(500, NONE, b"{}"), SCORED, Reply(200, NONE, b'{"reward": 0.0}'))
    measured = await ClosedLoop(Agent(0.002, answers=answers).attempt, 4).measured({}, Windows(1, 0.05))
    (window,) = measured.windows
    assert window.failed == pytest.approx(window.attempts / 2, abs=4)


async def test_one_window_is_measured_however_small_the_budget() -> None:
    measured = await ClosedLoop(Agent(0.001).attempt, 2).measured({}, Windows(5, 0.01, budget_s=0.0))
    assert len(measured.windows) == 1


async def test_failed_attempts_are_counted_and_the_first_is_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def unreachable() -> Reply:
        await asyncio.sleep(0.001)
        raise TransportError("no listener", code="connect_refused")

    (window,) = (await ClosedLoop(unreachable, 2).measured({}, Windows(1, 0.01))).windows
    assert window.failed == window.attempts
    assert capsys.readouterr().err.count("no listener") == 1


async def test_what_is_no_failure_of_an_attempt_ends_the_measurement() -> None:
    async def broken() -> Reply:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as caught:
        await ClosedLoop(broken, 2).measured({}, Windows())
    assert caught.group_contains(ZeroDivisionError)


async def test_workers_can_begin_one_after_the_other() -> None:
    agent = Agent(10.0, first=10.0)
    load = asyncio.create_task(ClosedLoop(agent.attempt, 4, spread_s=1.0).measured({}, Windows()))
    await asyncio.sleep(0.3)
    assert 1 <= agent.asked < 4
    load.cancel()
    await asyncio.wait([load])
