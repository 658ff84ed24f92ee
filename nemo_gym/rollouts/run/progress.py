"""Progress of a run on stderr: a live display in a terminal, periodic lines elsewhere."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TextIO

from nemo_gym import clock
from nemo_gym.rollouts.run.counters import RewardTotal, RunCounters
from nemo_gym.tables import write_count, write_number

if TYPE_CHECKING:
    from rich.console import Group

_LIVE_EVERY_S = 0.25
_LINE_EVERY_S = 10.0
_LEAST_RATE_S, _MOST_RATE_S = 10.0, 60.0
_TREND_BARS = 24
_MOST_SAMPLES = 512
_SHOWN_FAILURES = 4
_SHOWN_MEANS = 4


class Display:
    """Shows the state of a run; this base shows nothing."""

    every_s = 3600.0
    """Seconds between updates."""

    def show(self, counters: RunCounters, pace: Pace) -> None:
        """Show the current figures."""

    def close(self) -> None:
        """Leave the terminal clean."""


class Pace:
    """The rate of settled rollouts over the last half of the run, which is at least 10 s and at most a minute.

    So a slow start, and limits that were changed, have no lasting effect.
    """

    def __init__(self, clock: Callable[[], float] = clock.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._marks: deque[tuple[float, int]] = deque([(self._started, 0)])

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._started

    def mark(self, settled: int) -> None:
        """Record the number of rollouts settled since the start."""
        now = self._clock()
        self._marks.append((now, settled))
        span = min(_MOST_RATE_S, max(_LEAST_RATE_S, self.elapsed_s / 2))
        while len(self._marks) > 2 and now - self._marks[1][0] >= span:
            self._marks.popleft()

    @property
    def per_second(self) -> float:
        (first, settled_then), (last, settled) = self._marks[0], self._marks[-1]
        return (settled - settled_then) / (last - first) if last > first else 0.0

    def seconds_left(self, remaining: int) -> float | None:
        """Estimate the remaining seconds; None while no rollout has settled."""
        return remaining / self.per_second if self.per_second else None


class Trend:
    """The course of rate and reward since the start of a run, from samples of its counters.

    With several agents there is no course of the reward: it would tell which agent's rollouts come first.
    """

    def __init__(self) -> None:
        self._samples: list[tuple[float, int, int, float]] = []
        self._marks = 0
        self._stride = 1

    def mark(self, elapsed_s: float, counters: RunCounters) -> None:
        """Record the counters. Of many samples, every second one is dropped, and further ones are taken less often."""
        settled = counters.settled - counters.finished_before
        only = next(iter(counters.rewards.values())) if len(counters.rewards) == 1 else RewardTotal()
        sample = (elapsed_s, settled, only.rows, only.total)
        if (self._marks - 1) % self._stride:
            self._samples[-1] = sample  # the last one is always current
        else:
            self._samples.append(sample)
        self._marks += 1
        if len(self._samples) > _MOST_SAMPLES:
            del self._samples[1:-1:2]
            self._stride *= 2

    def steps(self) -> Iterator[tuple[float, float | None]]:
        """Yield the rate and the mean reward of equal parts of the time; the reward is None without a row."""
        if len(self._samples) < 2:
            return
        whole = self._samples[-1][0]
        edges = [whole * bar / _TREND_BARS for bar in range(_TREND_BARS + 1)]
        times = [sample[0] for sample in self._samples]
        marks = [self._samples[min(bisect_left(times, edge), len(times) - 1)] for edge in edges]
        for (start, before, rows, rewards), (end, after, rows_then, rewards_then) in pairwise(marks):
            if end > start:
                scored = rows_then - rows
                yield (after - before) / (end - start), (rewards_then - rewards) / scored if scored else None

    def lines(self) -> list[str]:
        """Return the courses as bars, with the range of each."""
        from nemo_gym.tables import sparkline

        steps = list(self.steps())
        rewards = [reward for _, reward in steps if reward is not None]
        fastest = max((rate for rate, _ in steps), default=0.0)
        if len(steps) < 2 or not fastest:
            return []
        lines = [f"rate   {sparkline([rate for rate, _ in steps], 0.0, fastest)} up to {fastest:.1f}/s"]
        if rewards:
            low, high = min(0.0, *rewards), max(1.0, *rewards)
            course = sparkline([reward for _, reward in steps], low, high)
            lines.insert(0, f"reward {course} {low:g} to {high:g}")
        return lines


@asynccontextmanager
async def show_progress(
    counters: RunCounters, display: Display, clock: Callable[[], float] = clock.monotonic
) -> AsyncIterator[Pace]:
    """Update `display` while the block runs."""
    pace = Pace(clock)
    task = asyncio.create_task(_keep_showing(counters, display, pace))
    try:
        yield pace
    finally:
        task.cancel()
        await asyncio.wait([task])
        pace.mark(counters.settled - counters.finished_before)
        display.close()


async def _keep_showing(counters: RunCounters, display: Display, pace: Pace) -> None:
    while True:
        pace.mark(counters.settled - counters.finished_before)
        display.show(counters, pace)
        await asyncio.sleep(display.every_s)


def display_for(stream: TextIO, *, quiet: bool = False) -> Display:
    """Return a display for `stream`."""
    if quiet:
        return Display()
    return LiveDisplay(stream) if stream.isatty() else LineDisplay(stream)


class LineDisplay(Display):
    """A line of text every ten seconds, for logs."""

    every_s = _LINE_EVERY_S

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, counters: RunCounters, pace: Pace) -> None:
        line = f"{duration(pace.elapsed_s)}  {'  '.join(describe(counters, pace))}"
        print(line, file=self._stream, flush=True)


class LiveDisplay(Display):
    """A bar and figures, updated in place."""

    every_s = _LIVE_EVERY_S

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream, highlight=False)
        self._live: Any = Live(console=self._console, auto_refresh=False, transient=True)
        self._trend = Trend()

    def show(self, counters: RunCounters, pace: Pace) -> None:
        self._trend.mark(pace.elapsed_s, counters)
        self._live.start()
        self._live.update(live_view(counters, pace, self._trend, self._console.width), refresh=True)

    def close(self) -> None:
        self._live.stop()


def live_view(counters: RunCounters, pace: Pace, trend: Trend, width: int) -> Group:
    """Return the display of a running collection in `width` columns of a terminal."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    from nemo_gym.tables import wrap_phrases

    share = f"{100 * counters.settled / max(1, counters.planned):.0f} %"
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(counters.planned, counters.settled, width=40), share, duration(pace.elapsed_s))
    lines = [*wrap_phrases(describe(counters, pace), width), *trend.lines()]
    return Group(bar, *(Text(line) for line in lines))


def describe(counters: RunCounters, pace: Pace) -> list[str]:
    """Return the current figures as short phrases."""
    phrases = [f"{counters.settled:,}/{counters.planned:,} rollouts", f"{pace.per_second:.1f}/s"]
    left = pace.seconds_left(counters.planned - counters.settled)
    if counters.is_stopping:
        phrases.append("stopping")
    elif counters.is_paused:
        phrases.append("paused (gym ctl resume)")
    elif left is not None:
        phrases.append(f"{duration(left)} left")
    if counters.aim is not None:
        phrases.append(counters.aim.describe())
    elif means := counters.mean_rewards:
        rows = write_count(counters.scored, "new row", "new rows")
        of = f" of {rows}" if counters.finished_before else ""
        phrases.append(f"mean reward {_write_means(means, is_alone=len(counters.rewards) == 1)}{of}")
    allowed = f" of {counters.auto.size} ({counters.auto.search})" if counters.auto else ""
    phrases.append(f"{counters.in_flight} in flight{allowed}")
    if counters.retries:
        phrases.append(f"{counters.retries} retries")
    if counters.failed:
        phrases.append(f"{counters.failed} failed ({most_common(counters.failures)})")
    if counters.expenses is not None:
        phrases.append(_write_expenses(counters.expenses.measure()))
    if counters.has_control and not counters.is_paused:
        phrases.append("control: gym ctl")
    return phrases


def _write_expenses(measured: Mapping[str, float]) -> str:
    cost = f", cost {measured['cost']:,.4f}" if measured["cost"] else ""
    return f"{measured['tokens']:,.0f} tokens{cost}"


def _write_means(means: Mapping[str, float], *, is_alone: bool) -> str:
    """Return the means of agents with their names, those of the first ones; of the only agent its mean."""
    written = [
        write_number(mean) if is_alone else f"{agent} {write_number(mean)}" for agent, mean in means.items()
    ]
    return ", ".join(written) if len(written) <= _SHOWN_MEANS else f"{', '.join(written[:_SHOWN_MEANS])}, …"


def most_common(failures: Mapping[str, int]) -> str:
    """Return the most frequent kinds of failure with their counts."""
    ranked = sorted(failures.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{kind} {count}" for kind, count in ranked[:_SHOWN_FAILURES])
    return shown if len(ranked) <= _SHOWN_FAILURES else f"{shown}, …"


def duration(seconds: float) -> str:
    """`1:02:03`, or `2:03` below an hour."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
