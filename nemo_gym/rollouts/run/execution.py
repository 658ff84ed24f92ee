"""One start of a run: its plan runs, then its metrics are computed and summarized, and its files are closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nemo_gym.clock import monotonic, wall_clock, write_time
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.metrics import AggregateResult, Planned
from nemo_gym.rollouts.output.index_file import index_large_rows
from nemo_gym.rollouts.output.journal import Journal
from nemo_gym.rollouts.output.materialized import MaterializedInputs
from nemo_gym.rollouts.output.nodes import keep_nodes
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run._outage_watch import log_outages
from nemo_gym.rollouts.run._window import AutoWindow, Window, build_window
from nemo_gym.rollouts.run.answer import Failed, Scored
from nemo_gym.rollouts.run.collector import Attempter, Collector, ResultSink
from nemo_gym.rollouts.run.control import StartControl
from nemo_gym.rollouts.run.counters import RewardTotal, RunCounters
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.dispatch_budget import DispatchBudget
from nemo_gym.rollouts.run.options import CollectOptions, RunLimits
from nemo_gym.rollouts.run.progress import Display, show_progress
from nemo_gym.rollouts.run.run_metrics import EnvironmentMetrics, RunMetrics, write_metrics
from nemo_gym.rollouts.run.stopping import Stop, StopReason, StopRules
from nemo_gym.rollouts.run.summary import (
    AgentSummary,
    CollectSummary,
    read_counts,
    summarize_agents,
    summarize_overall,
)
from nemo_gym.rollouts.run.token_texts import models_with_ids, write_token_texts
from nemo_gym.transport import Caller

if TYPE_CHECKING:
    from nemo_gym.rollouts.run.budgets import Budgets
    from nemo_gym.rollouts.run.durable_attempts import DurableAttempts
    from nemo_gym.rollouts.run.until import UntilRun
    from nemo_gym.rollouts.run.until_estimate import UntilEstimate

log = logging.getLogger(__name__)


@dataclass(slots=True)
class RunExecution:
    """One start of a run, after all checks: its plan runs, then its metrics are computed and summarized.

    A collection and a reverification differ in the fields here, and in the plan and the `Attempter` of `run`.
    """

    journal: Journal
    caller: Caller
    gym: DiscoveredGym = field(repr=False)
    rollouts: int
    """Rollouts that the run attempts in all of its starts."""
    planned: Mapping[str, Planned]
    """By agent, for the metrics."""
    control: StartControl
    stop: Stop
    servers: Collection[str] = ()
    """The servers whose outages are logged."""
    materialized: MaterializedInputs | None = None
    invalid_rows: int = 0
    clusters: Mapping[int, int] = field(default_factory=dict)
    """The index of each task that repeats an earlier one → the index of that one."""
    options: CollectOptions = field(default_factory=CollectOptions)
    on_scored: Callable[[Scored], None] | None = None
    durable: DurableAttempts | None = field(init=False, default=None)
    """The attempts of a durable run, and their records."""
    on_tuned: Callable[[RunLimits], None] = lambda limits: None
    """Called with limits that were changed while the run goes on."""
    budgets: Budgets | None = field(init=False, default=None)
    """The spending of the run, if it has budgets or prices."""
    until: UntilRun | None = field(init=False, default=None)
    """The draws of a run with an aim."""
    started_at: str = field(init=False, default_factory=lambda: time_now())
    metrics: RunMetrics = field(init=False)
    counters: RunCounters = field(init=False)
    _window: Window = field(init=False)
    _budget: DispatchBudget | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        options = self.options
        self.metrics = RunMetrics(frozenset(options.count_failure_classes_as_zero), self.clusters)
        if options.dispatch_budget_s is not None:
            self._budget = DispatchBudget(options.dispatch_budget_s, options.drain_margin_s)
        finished = len(self.journal.finished)
        limits = self.limits
        self._window = build_window(limits.in_parallel, self.rollouts - finished, limits.most_in_parallel)
        auto = self._window if isinstance(self._window, AutoWindow) else None
        rewards = {agent: RewardTotal() for agent in self.planned}
        self.counters = RunCounters(self.rollouts, finished, rewards=rewards, auto=auto)

    @property
    def limits(self) -> RunLimits:
        """The limits with which this start begins."""
        return self.control.limits

    async def run(
        self,
        plan: Iterable[PlannedAttempt],
        attempter: Attempter,
        display: Display | None,
        notes: Callable[[], Iterable[str]] = tuple,
    ) -> CollectSummary:
        """Run `plan`, close the files and return the summary. `notes` are read at the end."""
        started = monotonic()
        try:
            await self._run_plan(plan, attempter, display or Display())
            seconds, estimate = monotonic() - started, self._end_draws()
            results, missing = await self._write_metrics(plan)
            average = await asyncio.to_thread(self.metrics.average, self.planned)
        except BaseException as error:
            self.close_files({"end": "broken", "error": repr(error)})
            raise
        durable = await self.durable.end(is_complete=self.stop.reason is None) if self.durable else []
        summary = CollectSummary(
            files=self.journal.files,
            agents=(agents := self._summarize(results, estimate)),
            counters=self.counters,
            seconds=seconds,
            resumed=self.journal.resumed,
            overall=summarize_overall(agents, average) if agents and average and not estimate else None,
            failures=self.counters.failure_groups.rank_groups(),
            failed_tool_calls=self.metrics.rank_failed_tool_calls(),
            logs=self.gym.logs,
            stop=self.stop.reason or self._untrainable(),
            invalid_rows=self.invalid_rows,
            notes=[*notes(), *self.journal.notes, *missing, *self._describe_limits(), *durable],
            facts=self.journal.facts,
            repository=self.gym.repository,
            must_be_complete=self.options.require_complete,
            estimate=estimate,
            control=self.control.events,
            spent=self.budgets.to_json() if self.budgets is not None else None,
        )
        self._close_files_after(summary)
        return summary

    def _close_files_after(self, summary: CollectSummary) -> None:
        """Record the end of this start, with requests of control and expenses, if there are any."""
        ending = {"end": summary.end, "stop": asdict(summary.stop) if summary.stop else None}
        until = summary.estimate.describe_end() if summary.estimate else None
        further = {"control": summary.control, "spent": summary.spent, "until": until}
        self.close_files(ending | {name: value for name, value in further.items() if value})

    def _describe_limits(self) -> Iterator[str]:
        """Yield notes on limits of the run that were reached."""
        if self._budget is not None and self._budget.is_spent:
            yield self._budget.describe()
        if self.budgets is not None:
            yield from self.budgets.describe()

    async def _write_metrics(
        self, plan: Iterable[PlannedAttempt]
    ) -> tuple[dict[str, AggregateResult], list[str]]:
        """Write the metrics, and beside them the index of the rows and the texts of their tokens.

        Return the metrics with notes on missing ones.
        """
        if self.options.count_missing_rollouts_as_zero:
            await asyncio.to_thread(self.metrics.note_missing, plan)
        environment = EnvironmentMetrics(
            self.caller,
            max_rows=self.options.environment_metrics_max_rows,
            has_equal_tasks=bool(self.clusters),
        )
        models = [*models_with_ids(self.servers, self.gym.config)]
        written: tuple[dict[str, AggregateResult], list[str]]
        written, _, _ = await asyncio.gather(
            write_metrics(self.metrics, self.journal, self.planned, environment, self.stop),
            index_large_rows(self.journal.files),
            write_token_texts(self.journal.files, self.caller, models),
        )
        return written

    async def _run_plan(self, plan: Iterable[PlannedAttempt], attempter: Attempter, display: Display) -> None:
        whole = plan if self.until is None else iter(())
        if self.materialized is not None:
            is_drawn = self.until is not None
            write = self.materialized.written_as_drawn if is_drawn else self.materialized.write_from
            plan = write(plan)
        output: ResultSink = self.journal
        if self.budgets is not None:
            plan, output = self.budgets.limit_starts(plan), self.budgets.keep(output)
        if self._budget is not None:
            plan, attempter = self._budget.limit_starts(plan), self._budget.time_attempts(attempter)
        collector = Collector(
            attempter,
            output,
            self.counters,
            limits=self.limits,
            rules=StopRules(
                self.rollouts,
                identical_failures=self.options.stop_after_identical_failures,
                max_failed_fraction=self.options.max_failed_fraction,
            ),
            stop=self.stop,
            on_settled=self._note,
            window=self._window,
        )
        collector.on_tuned, refused = self.on_tuned, collector.note_refused
        try:
            async with (
                log_outages(self.caller, self.servers, on_refused=refused, outages=self.counters.outages),
                show_progress(self.counters, display),
                self.control.control(collector, whole, self.stop, self.counters),
            ):
                await collector.run(plan)
                if self.materialized is not None:
                    self.materialized.refuse_changes()
        except GymError as error:
            log.debug("the run failed; its summary has the reason", exc_info=error)
            self.stop.drain(StopReason("broken", error.failure.message, error.failure.remedy))

    def _note(self, planned: PlannedAttempt, result: Scored | Failed) -> None:
        self.metrics.note(planned, result)
        if self.budgets is not None:
            self.budgets.settle(planned.identity)
        if self.until is not None:
            self.until.note(planned, result)
        if self.durable is not None:
            self.durable.note_settled(planned, result)
        if self.on_scored is not None and isinstance(result, Scored):
            self.on_scored(result)

    def _end_draws(self) -> UntilEstimate | None:
        """Return the estimate of a run with an aim, whose plan is what it has drawn."""
        if self.until is None:
            return None
        self.planned = self.until.count_planned_by_agent()
        estimate = self.until.conclude()
        self.rollouts = self.counters.planned
        return estimate

    def _summarize(
        self, results: Mapping[str, AggregateResult], estimate: UntilEstimate | None
    ) -> list[AgentSummary]:
        """Return the figures of agents. A run with an aim has its estimate: uncertain tasks have more rows."""
        agents = summarize_agents(results, self.planned)
        if estimate is None or estimate.pair or len(agents) != 1:
            return agents
        return [replace(agents[0], mean_reward=estimate.mean, ci95=(estimate.low, estimate.high))]

    def _untrainable(self) -> StopReason | None:
        """Return why the rows cannot be used for training, or None."""
        masks = self.metrics.masks
        excess = masks.excess(self.options.max_masked_fraction)
        return StopReason("too_many_masked", excess, masks.remedy) if excess else None

    def close_files(self, ending: Mapping[str, Any]) -> None:
        """Record the end of this start, and close the files."""
        try:
            for file in (self.materialized, self.until):
                if file is not None:
                    file.close()
            self.journal.close({**ending, "ended_at": time_now(), "counts": read_counts(self.counters)})
            keep_nodes(self.journal.files, self.gym.logs, self.started_at)
        except (ConfigError, OSError) as error:  # a full disk must not hide the summary
            log.warning("cannot record the end of the run: %s", error)


def time_now() -> str:
    """Return the time in UTC, as manifests have it."""
    return write_time(wall_clock())
