"""Follows a run: figures every ten seconds, new rows as samples, and at the end the metrics and the files.

The trackers are called in a thread, so that a slow service holds nothing up. An error of a tracker never ends a run: it
is logged once, and the summary counts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import orjson

from nemo_gym.rollouts.output.expenses import list_expenses
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Existing
from nemo_gym.rollouts.output.manifest import Manifest
from nemo_gym.rollouts.plan.compression import holds_text, open_content
from nemo_gym.rollouts.run.collect import collect
from nemo_gym.rollouts.run.control import ServeControl
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.input_check import CheckedInput
from nemo_gym.rollouts.run.progress import Display, Pace
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.stopping import Stop
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rollouts.tracking.tracker import Sample, TrackedRunInfo, Tracker, start_tracker
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import identity_in
from nemo_gym.rows.parts import read_agent_or_unknown, read_params, read_response
from nemo_gym.rows.verdict import read_outcome, read_reward
from nemo_gym.transport import Caller
from nemo_gym.verify.answers import last_assistant_text

log = logging.getLogger(__name__)

_EVERY_S = 10.0
_COUNTS = ("settled", "planned", "completed", "truncated", "failed", "retries", "in_flight")
_LONGEST_TEXT = 2_000
_BLOCK = 1 << 20


async def collect_tracked(
    settings: CollectSettings,
    caller: Caller,
    gym: DiscoveredGym,
    *,
    stop: Stop | None = None,
    display: Display | None = None,
    checked: CheckedInput | None = None,
    serve: ServeControl | None = None,
) -> CollectSummary:
    """Like `collect`, followed by the trackers of `settings`. Raises `ConfigError` if one cannot be started."""
    files = RunFiles.from_output(settings.output)
    resumed = Manifest.read(files.manifest) if settings.existing is Existing.RESUME else None
    first = resumed.starts[0]["settings"] if resumed and resumed.starts else {}
    settings = settings.model_copy(update={"track_id": first.get("track_id") or uuid4().hex})
    info = TrackedRunInfo(
        str(settings.track_id),
        settings.track_project,
        settings.track_name or files.stem,
        files.folder,
        settings.to_json(),
    )
    trackers = {name: await asyncio.to_thread(start_tracker, name, info) for name in settings.trackers}
    samples = NewSamples(files.rows, settings.track_samples, is_resumed=resumed is not None)
    tracking = Tracking(trackers, samples, display or Display())
    try:
        summary = await collect(
            settings, caller, gym, stop=stop, display=tracking, checked=checked, serve=serve
        )
    except BaseException:
        await asyncio.to_thread(tracking.end, None)
        raise
    await asyncio.to_thread(tracking.end, summary)
    return summary


class NewSamples:
    """The rows that a run adds to its output, at most `most` of them."""

    def __init__(self, rows: Path, most: int, *, is_resumed: bool) -> None:
        """`is_resumed`: the rows that are there already belong to an earlier start."""
        self._rows = rows
        self._left = most
        self._read = 0
        """Bytes of the lines that were read."""
        if is_resumed and holds_text(rows):
            self._read = sum(map(len, self._new_lines()))

    def take(self) -> list[Sample]:
        """Return the samples that were added since the last call."""
        samples: list[Sample] = []
        with suppress(FileNotFoundError):
            for line in islice(self._new_lines(), self._left):
                self._read += len(line)
                with suppress(orjson.JSONDecodeError):  # the position is that of a file that has shrunk since
                    samples.append(build_sample(orjson.loads(line)))
        self._left -= len(samples)
        return samples

    def _new_lines(self) -> Iterator[bytes]:
        """Yield the complete lines after those that were read."""
        with open_content(self._rows) as file:
            _advance(file, self._read)
            yield from takewhile(lambda line: line.endswith(b"\n"), file)


def _advance(file: IO[bytes], offset: int) -> None:
    if file.seekable():
        file.seek(offset)
        return
    while block := file.read(min(offset, _BLOCK)):
        offset -= len(block)


def build_sample(row: AnyRow) -> Sample:
    """Return a row as a line of the table of samples; long texts are cut."""
    task, repeat = identity_in(row) or (0, 0)
    given = read_params(row).get("input")
    prompt = given if isinstance(given, str) else orjson.dumps(given).decode()
    answer = last_assistant_text(read_response(row))
    reward = read_reward(row)
    scored = float("nan") if reward is None else reward
    agent, outcome = read_agent_or_unknown(row), read_outcome(row).value
    return task, repeat, agent, scored, outcome, prompt[:_LONGEST_TEXT], answer[:_LONGEST_TEXT]


@dataclass(slots=True)
class Tracking(Display):
    """A display that also reports to trackers."""

    trackers: Mapping[str, Tracker]
    samples: NewSamples
    display: Display
    errors: Counter[str] = field(default_factory=Counter)
    """Tracker → calls that failed."""
    _last_s: float | None = None
    _pending: Future[None] | None = None
    _thread: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "trackers"))

    @property
    def every_s(self) -> float:  # type: ignore[override]
        """Seconds between updates."""
        return min(self.display.every_s, _EVERY_S)

    def show(self, counters: RunCounters, pace: Pace) -> None:
        """Show the figures, and report them if ten seconds have passed and the last report is done."""
        self.display.show(counters, pace)
        is_due = self._last_s is None or pace.elapsed_s - self._last_s >= _EVERY_S
        if is_due and (self._pending is None or self._pending.done()):
            self._last_s = pace.elapsed_s
            self._pending = self._thread.submit(self._report, build_figures(counters, pace), counters.settled)

    def close(self) -> None:
        """Close the display."""
        self.display.close()

    def end(self, summary: CollectSummary | None) -> None:
        """Report the end of the run: its metrics and files. None if it broke."""
        self._thread.shutdown(wait=True)
        if summary is not None:
            self._report(final_figures(summary), summary.counters.settled)
            files = summary.files.present()
            self._each(lambda tracker: tracker.add_files(files))
        is_complete = summary is not None and summary.exit_code == 0
        self._each(lambda tracker: tracker.close(is_complete=is_complete))
        if summary is not None:
            summary.notes.extend(f"the tracker {name} failed {n:,} times" for name, n in self.errors.items())

    def _report(self, figures: Mapping[str, float], step: int) -> None:
        samples: Sequence[Sample] = self.samples.take()
        self._each(lambda tracker: tracker.log(figures, step))
        if samples:
            self._each(lambda tracker: tracker.add_samples(samples, step))

    def _each(self, call: Callable[[Tracker], None]) -> None:
        for name, tracker in self.trackers.items():
            try:
                call(tracker)
            except Exception as error:  # noqa: BLE001 - of a service outside
                self.errors[name] += 1
                if self.errors[name] == 1:
                    log.warning("the tracker %s failed; the run goes on: %s", name, error)


def build_figures(counters: RunCounters, pace: Pace) -> dict[str, float]:
    """Return the figures of a run that goes on. `run/mean_reward` is that of a run's only agent.

    The rows of a run with an aim have no mean of interest.
    """
    figures: dict[str, float] = {f"run/{name}": getattr(counters, name) for name in _COUNTS}
    figures["run/rollouts_per_second"] = pace.per_second
    means = counters.mean_rewards if counters.aim is None else {}
    figures |= {f"{agent}/mean_reward": mean for agent, mean in means.items()}
    if means and len(counters.rewards) == 1:
        figures["run/mean_reward"] = next(iter(means.values()))
    if counters.expenses is not None:
        figures |= {f"spent/{name}": amount for name, amount in counters.expenses.measure().items()}
    return figures


def final_figures(summary: CollectSummary) -> dict[str, float]:
    """Return the main metrics of each agent, the number of missing rollouts, and the estimate of a run with an aim."""
    figures: dict[str, float | None] = {
        "run/missing": summary.missing,
        "run/settled": summary.counters.settled,
    }
    for agent in summary.agents:
        figures |= {
            f"{agent.agent}/mean_reward": agent.mean_reward,
            f"{agent.agent}/coverage": agent.coverage,
        }
        figures |= {f"{agent.agent}/pass_at_{k}": percent for k, percent in agent.pass_at.items()}
    if (estimate := summary.estimate) is not None:
        figures |= {
            "run/estimate": estimate.mean,
            "run/estimate_low": estimate.low,
            "run/estimate_high": estimate.high,
        }
    figures |= _build_expense_figures(summary.spent)
    return {name: value for name, value in figures.items() if value is not None}


def _build_expense_figures(spent: Mapping[str, Any] | None) -> Iterator[tuple[str, float | None]]:
    """Yield what a run has spent: in all, and by model server with its role, environment and agent."""
    for part in list_expenses(spent) if spent is not None else ():
        place = (
            f"spent/{part.kind}/{part.name}".removesuffix("/").replace("spent/run", "spent").replace("`", "")
        )
        yield f"{place}/tokens", part.tokens
        yield f"{place}/cost", part.cost
        yield f"{place}/seconds", part.seconds
