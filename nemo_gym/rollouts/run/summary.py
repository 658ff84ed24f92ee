"""The summary of a run as data. `nemo_gym.rollouts.run.closing` prints it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_gym.metrics import (
    AgentsAverage,
    AggregateResult,
    FailedCalls,
    Planned,
    TimeAccount,
    has_partial_rewards,
    mean,
    read_pass_curve,
    read_time_account,
    reward_by_k,
    reward_interval,
)
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.run_facts import RunFacts
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.failure_groups import FailureGroup
from nemo_gym.rollouts.run.stopping import StopReason

if TYPE_CHECKING:
    from nemo_gym.rollouts.run.until_estimate import UntilEstimate

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
    """The 95 % interval of the mean, clustered by task, within the range of rewards: at least 0 to 1."""
    pass_at: dict[int, float]
    """k → pass@k of the reward, in percent, for each k of which half of the tasks with a reward have as many."""
    short_tasks: dict[int, int]
    """k → tasks with fewer than k rewards, which `pass_at` leaves out; only where there are any."""
    coverage: float | None
    """Percent of the planned rollouts that have a reward."""
    has_partial_rewards: bool = False
    """Whether a reward is neither 0 nor 1, so that `pass_at` has expected best rewards times 100."""
    tokens: float | None = None
    """Mean tokens of a rollout, of prompts and answers together."""
    times: TimeAccount | None = None
    """Where the seconds of the rollouts went."""

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
    overall: AgentSummary | None = None
    """The results of several agents together: sums of counts, and means of the agents' figures.

    A run with an aim has none: its estimate is over all agents.
    """
    stop: StopReason | None = None
    """The reason for an early end, if any."""
    failures: list[FailureGroup] = field(default_factory=list)
    """The final failures of this start by cause, the most frequent first."""
    failed_tool_calls: list[FailedCalls] = field(default_factory=list)
    """The tool calls of all starts that failed by the fault of an environment, by tool and cause."""
    logs: Path | None = None
    """The folder with a log for each server, if it is known."""
    invalid_rows: int = 0
    """Malformed rows of the dataset that were skipped."""
    notes: list[str] = field(default_factory=list)
    facts: RunFacts = field(default_factory=RunFacts)
    """The models and the sampling of the manifest."""
    repository: Mapping[str, Any] | None = None
    """The commit of the git repository in which the gym was started, and whether its files differ (`dirty`)."""
    must_be_complete: bool = False
    """A missing row makes the exit code 1."""
    estimate: UntilEstimate | None = None
    """The estimate of a run with `until`."""
    control: Sequence[Mapping[str, Any]] = ()
    """The accepted requests of control."""
    spent: Mapping[str, Any] | None = None
    """The spending of the run in all of its starts, if it has budgets or prices (`Budgets.to_json`)."""

    @property
    def exit_code(self) -> int:
        """0: every planned rollout has a row. 1: a failure stopped the run. 3: rows are missing, or an aim is."""
        if self.stop is not None and not self.stop.is_wanted:
            return FATAL
        if self.missing and self.must_be_complete:
            return FATAL
        is_short = self.estimate is not None and not self.estimate.is_reached
        return PARTIAL if self.missing or is_short else COMPLETE

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
        """The suggested next command. A resume is suggested only if it can help."""
        if not self.missing:
            return f"gym view {self.files.rows}"
        not_attempted = self.missing > self.counters.failed
        if not_attempted or any(group.may_pass for group in self.failures):
            return "the same command with +resume_from_cache=true (gym: --resume) attempts what is missing"
        return (
            f"gym eval failures {self.files.rows} shows every failure; correct the causes, then the same command "
            "with +resume_from_cache=true (gym: --resume) attempts these rollouts again"
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
            "counts": read_counts(counters) | {"invalid_rows": self.invalid_rows},
            "failures": dict(counters.failures),
            "failure_groups": [group.to_json() for group in self.failures],
            "failed_tool_calls": [calls.to_json() for calls in self.failed_tool_calls],
            "truncations": dict(counters.truncations),
            "auto": counters.auto.to_json() if counters.auto else None,
            "agents": [agent.to_json() for agent in self.agents],
            "overall": self.overall.to_json() if self.overall else None,
            "files": {
                path.stem.removeprefix(self.files.stem).lstrip("_") or "rows": str(path)
                for path in self.files.present()
            },
            "repository": self.repository,
            **({"estimate": asdict(self.estimate)} if self.estimate else {}),
            **({"control": list(self.control)} if self.control else {}),
            **({"spent": self.spent} if self.spent is not None else {}),
            "notes": self.notes,
        }


def read_counts(counters: RunCounters) -> dict[str, int]:
    """Return the counters as plain data."""
    return {name: getattr(counters, name) for name in _COUNTS}


def summarize_agents(
    results: Mapping[str, AggregateResult], planned: Mapping[str, Planned]
) -> list[AgentSummary]:
    """Return the main figures of each agent's metrics."""
    return [
        _summarize(agent, result["agent_metrics"], planned.get(agent)) for agent, result in results.items()
    ]


def summarize_overall(agents: Sequence[AgentSummary], average: AgentsAverage) -> AgentSummary:
    """Return the figures of several agents together: sums of counts, and means of figures that all agents have.

    Rollouts of two agents are no sample of one policy, so no figure is computed over both.
    """
    largest = max(agent.tasks for agent in agents)
    tasks = max(largest, average.tasks) if average.shares_tasks else sum(agent.tasks for agent in agents)
    rollouts = sum(agent.rollouts for agent in agents)
    covered = [agent.coverage * agent.rollouts for agent in agents if agent.coverage is not None]
    ks = [k for k in agents[0].pass_at if all(k in agent.pass_at for agent in agents)]
    tokens = [agent.tokens for agent in agents if agent.tokens is not None]
    seconds = [agent.times.seconds for agent in agents if agent.times is not None]
    return AgentSummary(
        agent="overall",
        tasks=tasks,
        rollouts=rollouts,
        completed=sum(agent.completed for agent in agents),
        truncated=sum(agent.truncated for agent in agents),
        failed=sum(agent.failed for agent in agents),
        missing=sum(agent.missing for agent in agents),
        mean_reward=average.mean,
        ci95=(average.interval.low, average.interval.high) if average.interval else None,
        pass_at={k: mean([agent.pass_at[k] for agent in agents]) for k in ks},
        short_tasks={k: count for k in ks if (count := sum(agent.short_tasks.get(k, 0) for agent in agents))},
        coverage=sum(covered) / rollouts if rollouts and len(covered) == len(agents) else None,
        has_partial_rewards=any(agent.has_partial_rewards for agent in agents),
        tokens=mean(tokens) if len(tokens) == len(agents) else None,
        times=TimeAccount("overall", mean(seconds), {}, None) if len(seconds) == len(agents) else None,
    )


def _summarize(agent: str, metrics: Mapping[str, Any], planned: Planned | None) -> AgentSummary:
    pass_at, short = read_pass_curve(metrics), reward_by_k(metrics, "short_tasks")
    return AgentSummary(
        agent=agent,
        tasks=planned.tasks if planned else metrics.get("count/tasks", 0),
        rollouts=planned.rollouts if planned else metrics.get("count/rollouts", 0),
        completed=metrics.get("count/outcome/completed", 0),
        truncated=metrics.get("count/outcome/truncated", 0),
        failed=metrics.get("count/outcome/failed", 0),
        missing=metrics.get("count/outcome/missing", 0),
        mean_reward=metrics.get("mean/reward"),
        ci95=(interval.low, interval.high) if (interval := reward_interval(metrics)) else None,
        pass_at=pass_at,
        short_tasks={k: short[k] for k in pass_at or short if k in short},
        coverage=metrics.get("coverage/reward"),
        has_partial_rewards=has_partial_rewards(metrics),
        tokens=metrics.get("mean/total_tokens"),
        times=read_time_account(agent, metrics),
    )
