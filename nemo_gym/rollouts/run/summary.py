"""The summary of a run, as a table and as JSON."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from nemo_gym.metrics import AggregateResult, Planned
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.progress import duration, most_common
from nemo_gym.rollouts.run.stopping import StopReason

if TYPE_CHECKING:
    from rich.table import Table

_PASS_KEY = re.compile(r"pass@(\d+)/reward")
_SHORT_KEY = re.compile(r"short_tasks@(\d+)/reward")
_SHOWN_K = 3
_AGENTS_ABREAST = 3
_COUNTS = (
    "planned", "finished_before", "completed", "truncated", "failed", "cancelled", "discarded", "retries",
)  # fmt: skip

COMPLETE, FATAL, PARTIAL = 0, 1, 3


@dataclass(frozen=True, slots=True)
class AgentSummary:
    """The results of one agent, including earlier starts of the run."""

    agent: str
    tasks: int
    """As planned."""
    rollouts: int
    """As planned."""
    completed: int
    truncated: int
    failed: int
    """Final failures in this start of the run."""
    missing: int
    """Planned, and neither scored nor failed."""
    mean_reward: float | None
    ci95: tuple[float, float] | None
    """The 95 % interval of the mean, clustered by task."""
    pass_at: dict[int, float]
    """k → pass@k of the reward, in percent."""
    short_tasks: dict[int, int]
    """k → tasks with fewer than k rewards, which pass@k leaves out; only where there are any."""
    coverage: float | None
    """Percent of the planned rollouts that have a reward."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "pass_at": {str(k): value for k, value in self.pass_at.items()},
            "short_tasks": {str(k): tasks for k, tasks in self.short_tasks.items()},
        }


@dataclass(frozen=True, slots=True)
class CollectSummary:
    """The result of one start of a run."""

    files: RunFiles
    agents: list[AgentSummary]
    counters: RunCounters
    seconds: float
    resumed: bool = False
    stop: StopReason | None = None
    """The reason for an early end, if any."""
    invalid_rows: int = 0
    """Malformed rows of the dataset that were skipped."""
    notes: list[str] = field(default_factory=list)
    must_be_complete: bool = False
    """A missing row makes the exit code 1."""

    @property
    def exit_code(self) -> int:
        """0: every planned rollout has a row. 1: a failure stopped the run. 3: rows are missing."""
        if self.stop is not None and self.stop.code != "interrupted":
            return FATAL
        if self.missing and self.must_be_complete:
            return FATAL
        return PARTIAL if self.missing else COMPLETE

    @property
    def missing(self) -> int:
        """Planned rollouts without a row."""
        return max(0, self.counters.planned - self.counters.finished_before - self.counters.scored)

    @property
    def end(self) -> str:
        """The kind of end, in one word."""
        if self.stop is not None:
            return self.stop.code
        return "complete" if self.exit_code == COMPLETE else "partial"

    @property
    def next_command(self) -> str:
        """The suggested next command."""
        if not self.missing:
            return f"python -m json.tool {self.files.aggregate_metrics}"
        return (
            "the same command with +resume_from_cache=true (and without +overwrite) attempts what is missing"
        )

    def to_json(self) -> dict[str, Any]:
        """The summary as plain data."""
        counters = self.counters
        return {
            "end": self.end,
            "exit_code": self.exit_code,
            "stop": asdict(self.stop) if self.stop else None,
            "resumed": self.resumed,
            "seconds": round(self.seconds, 3),
            "counts": counts_of(counters) | {"invalid_rows": self.invalid_rows},
            "failures": dict(counters.failures),
            "auto": counters.auto.to_json() if counters.auto else None,
            "agents": [agent.to_json() for agent in self.agents],
            "files": {
                path.stem.removeprefix(self.files.stem).lstrip("_") or "rows": str(path)
                for path in self.paths()
            },
            "notes": self.notes,
        }

    def paths(self) -> list[Path]:
        """Return the files of the run that are not empty."""
        return self.files.present()


def counts_of(counters: RunCounters) -> dict[str, int]:
    """Return the counters as plain data."""
    return {name: getattr(counters, name) for name in _COUNTS}


def summarize_agents(
    results: Mapping[str, AggregateResult], planned: Mapping[str, Planned]
) -> list[AgentSummary]:
    """Return the main figures of each agent's metrics."""
    return [
        _summarize(agent, result["agent_metrics"], planned.get(agent)) for agent, result in results.items()
    ]


def _summarize(agent: str, metrics: Mapping[str, Any], planned: Planned | None) -> AgentSummary:
    low, high = metrics.get("ci95_low/reward"), metrics.get("ci95_high/reward")
    return AgentSummary(
        agent=agent,
        tasks=planned.tasks if planned else metrics.get("count/tasks", 0),
        rollouts=planned.rollouts if planned else metrics.get("count/rollouts", 0),
        completed=metrics.get("count/outcome/completed", 0),
        truncated=metrics.get("count/outcome/truncated", 0),
        failed=metrics.get("count/outcome/failed", 0),
        missing=metrics.get("count/outcome/missing", 0),
        mean_reward=metrics.get("mean/reward"),
        ci95=None if low is None or high is None else (low, high),
        pass_at=_by_k(_PASS_KEY, metrics),
        short_tasks=_by_k(_SHORT_KEY, metrics),
        coverage=metrics.get("coverage/reward"),
    )


def _by_k(pattern: re.Pattern[str], metrics: Mapping[str, Any]) -> dict[int, Any]:
    matches = ((pattern.fullmatch(key), value) for key, value in metrics.items())
    return {int(match[1]): value for match, value in matches if match}


def print_summary(summary: CollectSummary, stream: TextIO) -> None:
    """Print the closing table, the files and the next command."""
    from rich.console import Console

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for start in range(0, len(summary.agents), _AGENTS_ABREAST):
        console.print(_table(summary.agents[start : start + _AGENTS_ABREAST]))
    for line in _closing_lines(summary):
        console.print(line, markup=False)


def _table(agents: Sequence[AgentSummary]) -> Table:
    """Return a table with one column per agent, which fits any terminal."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for agent in agents:
        table.add_column(agent.agent, justify="right", overflow="fold")
    for name, cell in _figures(agents):
        table.add_row(name, *(cell(agent) for agent in agents))
    return table


def _figures(agents: Sequence[AgentSummary]) -> list[tuple[str, Callable[[AgentSummary], str]]]:
    """Return the rows of the table: a name, and a function that formats the cell of an agent."""
    ks = sorted({k for agent in agents for k in _shown_k(agent)})
    return [
        ("tasks", lambda agent: f"{agent.tasks:,}"),
        ("rollouts", lambda agent: f"{agent.rollouts:,}"),
        ("completed", lambda agent: f"{agent.completed:,}"),
        ("truncated", lambda agent: f"{agent.truncated:,}"),
        ("failed", lambda agent: f"{agent.failed:,}"),
        ("missing", lambda agent: f"{agent.missing:,}"),
        ("mean reward", lambda agent: "-" if agent.mean_reward is None else f"{agent.mean_reward:.4f}"),
        ("95 % interval", lambda agent: f"{agent.ci95[0]:.4f} to {agent.ci95[1]:.4f}" if agent.ci95 else "-"),
        *(
            (name.format(k), partial(cell, k))
            for k in ks
            for name, cell in (("pass@{}", _pass_at), ("  tasks left out", _left_out))
            if cell is _pass_at or any(k in agent.short_tasks for agent in agents)
        ),
        ("coverage", lambda agent: _percent(agent.coverage)),
    ]


def _shown_k(agent: AgentSummary) -> list[int]:
    """Return at most three values of k: the first, the last and one between."""
    ks = sorted(agent.pass_at.keys() | agent.short_tasks.keys())
    return ks if len(ks) <= _SHOWN_K else [ks[0], max(k for k in ks if 2 * k <= ks[-1]), ks[-1]]


def _pass_at(k: int, agent: AgentSummary) -> str:
    return _percent(agent.pass_at.get(k))


def _left_out(k: int, agent: AgentSummary) -> str:
    """Return the number of tasks that pass@k leaves out, because they have fewer than k rewards."""
    return f"{agent.short_tasks.get(k, 0):,} of {agent.tasks:,}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} %"


def _closing_lines(summary: CollectSummary) -> list[str]:
    counters = summary.counters
    now = counters.scored + counters.failed
    rate = f", {now / summary.seconds:.1f}/s" if now and summary.seconds > 0 else ""
    earlier = f" ({counters.finished_before:,} existed before)" if counters.finished_before else ""
    lines = ["", f"{counters.scored:,} rows in {duration(summary.seconds)}{rate}{earlier}"]
    if counters.auto:
        lines.append(f"auto: {counters.auto.describe()}")
    if counters.failed:
        lines.append(f"{counters.failed:,} rollouts failed: {most_common(counters.failures)}")
    if counters.cancelled:
        lines.append(f"{counters.cancelled:,} rollouts were cancelled")
    if summary.invalid_rows:
        lines.append(f"{summary.invalid_rows:,} malformed rows were skipped")
    lines += [f"note: {note}" for note in summary.notes]
    lines += [f"  {path}" for path in summary.paths()]
    if summary.stop is not None:
        lines += ["", f"stopped: {summary.stop.message}"]
        lines += [f"-> {summary.stop.remedy}"] if summary.stop.remedy else []
    lines.append(f"next: {summary.next_command}")
    return lines
