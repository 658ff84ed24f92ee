"""Progress while a run goes on."""

from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from nemo_gym.rollouts.run.counters import RewardTotal, RunCounters
from nemo_gym.rollouts.run.progress import (
    Display,
    LineDisplay,
    LiveDisplay,
    Pace,
    Trend,
    describe,
    display_for,
    duration,
    live_view,
    most_common,
    show_progress,
)
from tests.rollouts.doubles import run_virtually
from tests.screens import WIDTHS, is_as_captured


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def some_counters() -> RunCounters:
    counters = RunCounters(
        1000, finished_before=100, completed=180, truncated=20, failed=10, in_flight=64, retries=3
    )
    counters.rewards["an_agent"] = RewardTotal(200, 50.0)
    counters.failures.update({"engine:timeout": 7, "judge_failed": 3})
    return counters


def test_the_line_says_how_far_how_fast_how_well_and_what_failed() -> None:
    clock = Clock()
    pace = Pace(clock)
    clock.now += 10
    pace.mark(210)
    assert describe(some_counters(), pace) == [
        "310/1,000 rollouts",
        "21.0/s",
        "0:33 left",
        "mean reward 0.250 of 200 new rows",
        "64 in flight",
        "3 retries",
        "10 failed (engine:timeout 7, judge_failed 3)",
    ]


def test_the_pace_is_that_of_the_latest_minute() -> None:
    clock = Clock()
    pace = Pace(clock)
    for second in range(1, 601):
        clock.now += 1
        pace.mark(10 * min(second, 300))
    assert pace.per_second == 0.0
    assert pace.elapsed_s == 600.0
    assert pace.seconds_left(5) is None


def test_the_time_left_of_a_short_run_is_that_of_its_latest_half() -> None:
    pace = Pace(clock := Clock())
    for second in range(1, 41):
        clock.now += 1
        pace.mark(second if second <= 20 else 20 + 10 * (second - 20))
    assert pace.per_second == 10.0
    assert pace.seconds_left(100) == 10.0


def test_at_the_start_there_is_no_estimate() -> None:
    assert describe(RunCounters(5), Pace(Clock())) == ["0/5 rollouts", "0.0/s", "0 in flight"]


def test_a_run_that_stops_has_no_time_left() -> None:
    pace = Pace(clock := Clock())
    clock.now += 10
    pace.mark(5)
    phrases = describe(RunCounters(10, completed=5, in_flight=2, is_stopping=True), pace)
    assert phrases[2:] == ["stopping", "2 in flight"]


def test_lines_appear_every_few_seconds_until_the_run_ends() -> None:
    stream, counters = io.StringIO(), RunCounters(100)

    async def run() -> None:
        async with show_progress(counters, LineDisplay(stream), asyncio.get_running_loop().time):
            for _ in range(25):
                await asyncio.sleep(1.0)
                counters.completed += 1

    run_virtually(run())
    lines = stream.getvalue().splitlines()
    assert [line.split("  ")[:2] for line in lines] == [
        ["0:00", "0/100 rollouts"],
        ["0:10", "9/100 rollouts"],
        ["0:20", "19/100 rollouts"],
    ]


@pytest.mark.parametrize("failing", [False, True])
def test_a_display_is_closed_whatever_happens(failing: bool) -> None:
    class Watched(Display):
        closed = 0

        def close(self) -> None:
            self.closed += 1

    display = Watched()

    async def run() -> None:
        async with show_progress(RunCounters(1), display):
            if failing:
                raise ValueError

    if failing:
        with pytest.raises(ValueError):
            run_virtually(run())
    else:
        run_virtually(run())
    assert display.closed == 1


def test_the_live_display_draws_the_same_figures() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    display = display_for(stream)
    assert isinstance(display, LiveDisplay)
    display.show(some_counters(), Pace())
    display.close()
    assert "mean reward 0.250" in stream.getvalue()
    assert isinstance(display_for(io.StringIO()), LineDisplay)


def test_the_trend_has_the_course_of_reward_and_rate() -> None:
    rewards = RewardTotal()
    trend, counters = Trend(), RunCounters(10_000, rewards={"an_agent": rewards})
    assert trend.lines() == []
    for second in range(481):
        trend.mark(float(second), counters)
        for _ in range(1 if second < 240 else 3):
            counters.completed += 1
            rewards.add(0.0 if second < 240 else 1.0)
    steps = list(trend.steps())
    assert [round(rate) for rate, _ in steps] == [1] * 12 + [3] * 12
    assert [reward for _, reward in steps] == [0.0] * 12 + [1.0] * 12
    reward, rate = trend.lines()
    assert reward == f"reward {'▁' * 12}{'█' * 12} 0 to 1"
    assert rate.endswith("up to 3.0/s")


def test_no_figure_is_over_the_rewards_of_several_agents() -> None:
    trend, counters = Trend(), RunCounters(100, rewards={"maths": RewardTotal(), "code": RewardTotal()})
    for second in range(50):
        trend.mark(float(second), counters)
        counters.completed += 1
        counters.rewards["maths"].add(0.75)
    assert "mean reward maths 0.750" in describe(counters, Pace(Clock())), "the other one has none yet"
    counters.rewards["code"].add(0.25)
    assert "mean reward code 0.250, maths 0.750" in describe(counters, Pace(Clock()))
    assert [line.split()[0] for line in trend.lines()] == ["rate"]


def test_a_long_run_keeps_few_samples() -> None:
    trend, counters = Trend(), RunCounters(10_000)
    for second in range(5000):
        trend.mark(float(second), counters)
        counters.completed += 1
    steps = list(trend.steps())
    assert len(steps) == 24
    assert all(rate == pytest.approx(1.0, rel=0.1) for rate, _ in steps)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_live_display_fits_the_terminal(width: int) -> None:
    clock, trend, counters = Clock(), Trend(), some_counters()
    pace = Pace(clock)
    for _ in range(48):
        clock.now += 1
        counters.completed += 5
        for reward in (0.5,) * 5:
            counters.rewards["an_agent"].add(reward)
        pace.mark(counters.settled)
        trend.mark(pace.elapsed_s, counters)
    stream = io.StringIO()
    Console(file=stream, width=width).print(live_view(counters, pace, trend, width))
    lines = stream.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert is_as_captured(f"collection_{width}", lines)


def test_many_kinds_of_failure_are_cut_short() -> None:
    assert most_common({f"kind_{number}": number for number in range(1, 7)}) == (
        "kind_6 6, kind_5 5, kind_4 4, kind_3 3, …"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3599, "59:59"), (7322, "2:02:02")]
)
def test_durations_are_read_as_on_a_clock(seconds: float, text: str) -> None:
    assert duration(seconds) == text
