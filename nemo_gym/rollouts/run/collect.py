"""A collection from settings to summary: check the input, run the plan, compute metrics and summarize.

`collect` is the entry point of the commands. It needs a running gym and a caller that reaches it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from nemo_gym.clock import monotonic, wall_clock
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.metrics import AggregateResult, Planned
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.finished import read_durations
from nemo_gym.rollouts.output.index_file import index_large_rows
from nemo_gym.rollouts.output.journal import Existing, Journal, open_journal
from nemo_gym.rollouts.output.manifest import build_identity
from nemo_gym.rollouts.output.materialized import AFTER_ALL, MaterializedInputs
from nemo_gym.rollouts.output.nodes import keep_nodes
from nemo_gym.rollouts.output.task_matching import find_numbers, pack_numbers
from nemo_gym.rollouts.plan.plan import Plan, PlannedAttempt
from nemo_gym.rollouts.run._outage_watch import log_outages
from nemo_gym.rollouts.run._window import AutoWindow, Window, build_window
from nemo_gym.rollouts.run.agent_attempter import AgentAttempter
from nemo_gym.rollouts.run.answer import Failed, Scored
from nemo_gym.rollouts.run.collector import Attempter, Collector
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.dispatch_budget import DispatchBudget
from nemo_gym.rollouts.run.input_check import CheckedInput, check_input
from nemo_gym.rollouts.run.options import CollectOptions, RunLimits
from nemo_gym.rollouts.run.preflight import EnginesFound, check_servers
from nemo_gym.rollouts.run.progress import Display, show_progress
from nemo_gym.rollouts.run.required_servers import find_required_servers
from nemo_gym.rollouts.run.run_metrics import EnvironmentMetrics, RunMetrics, write_metrics
from nemo_gym.rollouts.run.settings import CollectSettings
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
    from nemo_gym.rollouts.run.until import UntilRun
    from nemo_gym.rollouts.run.until_estimate import UntilEstimate

log = logging.getLogger(__name__)


async def collect(
    settings: CollectSettings,
    caller: Caller,
    gym: DiscoveredGym,
    *,
    stop: Stop | None = None,
    display: Display | None = None,
    attempter: Attempter | None = None,
    checked: CheckedInput | None = None,
) -> CollectSummary:
    """Collect rollouts from the servers of `gym`.

    `stop` lets the caller end the run early; `attempter` replaces the agents; `checked` is from `check_input`.
    Raises `ConfigError` for invalid rows, agents or outputs, and `GymError` if a server or an engine is unreachable;
    then nothing has run. An error during the run (a full disk) ends it and becomes the summary's `stop`.
    """
    checked, servers, engines = await _check(settings, caller, gym, checked)
    identity = build_identity(checked.plan, checked.inspection, servers, gym.config, engines)
    journal, materialized, notes = await asyncio.to_thread(_open_files, settings, checked, identity, gym)
    inspection, limits = checked.inspection, settings.limits
    execution = RunExecution(
        journal,
        caller,
        gym,
        rollouts=inspection.rollouts,
        planned={
            agent: Planned(tasks, inspection.rollouts_of[agent]) for agent, tasks in inspection.agents.items()
        },
        limits=limits,
        stop=stop or Stop(),
        servers=servers.keys(),
        materialized=materialized,
        invalid_rows=inspection.invalid,
        options=settings,
    )
    agents = attempter or AgentAttempter(caller, timeout_s=limits.rollout_timeout_s)
    plan, agents = await _choose_plan(settings, checked, execution, agents)
    return await execution.run(plan, agents, display, lambda: [*inspection.notes, *notes])


async def _choose_plan(
    settings: CollectSettings, checked: CheckedInput, execution: RunExecution, agents: Attempter
) -> tuple[Plan | UntilRun, Attempter]:
    """Return the rollouts to run, and the agents; the draws of a run with `until` watch theirs."""
    if settings.until is None:
        return _build_plan(settings, checked, execution.journal), agents
    draws = await asyncio.to_thread(_begin_draws, settings, checked, execution)
    return draws, draws.watched(agents)


def _begin_draws(settings: CollectSettings, checked: CheckedInput, execution: RunExecution) -> UntilRun:
    """Return the draws of a run with `until`. Closes the files and raises `ConfigError` if they cannot go on."""
    from nemo_gym.rollouts.run.until import begin_draws  # most runs have no aim

    try:
        tasks = Plan(checked.plan, numbers=checked.inspection.numbers).read_tasks()
        execution.until = begin_draws(
            settings, list(tasks), execution.journal, execution.counters, execution.gym.config
        )
    except BaseException as error:
        execution.close_files({"end": "broken", "error": str(error)})
        raise
    execution.until.attach(execution.stop)
    return execution.until


def _build_plan(settings: CollectSettings, checked: CheckedInput, journal: Journal) -> Plan:
    return Plan(
        checked.plan,
        numbers=checked.inspection.numbers,
        finished=journal.finished,
        durations=read_durations(journal.files.rows) if settings.dispatch_longest_first else None,
    )


async def _check(
    settings: CollectSettings, caller: Caller, gym: DiscoveredGym, given: CheckedInput | None
) -> tuple[CheckedInput, Mapping[str, Mapping[str, Any]], EnginesFound]:
    """Return, after all checks, the input, the configuration of the servers that take part, and their engines."""
    checked = await asyncio.to_thread(check_input, settings, gym.config) if given is None else given
    agents, tools = checked.inspection.agents, checked.inspection.tools
    servers = find_required_servers(agents, gym.config)
    return checked, servers, await check_servers(caller, agents, servers, tools=tools)


def _open_files(
    settings: CollectSettings,
    checked: CheckedInput,
    identity: dict[str, Any],
    gym: DiscoveredGym,
) -> tuple[Journal, MaterializedInputs | None, list[str]]:
    """Return the open files, and notes on the tasks of a resumed run, which get the indices that they have in it."""
    inspection, files = checked.inspection, RunFiles.from_output(settings.output)
    notes: list[str] = []
    if settings.existing is Existing.RESUME:
        allowed = settings.allowed_changes
        inspection.numbering, notes = find_numbers(files, identity, checked.plan, allowed)
    journal = open_journal(
        files,
        identity,
        _describe_start(settings, inspection.rollouts, gym),
        is_planned=inspection.membership(),
        existing=settings.existing,
        allowed=settings.allowed_changes,
        tasks=pack_numbers(inspection.numbers),
        retried=settings.list_retried_classes(),
    )
    try:
        return journal, _open_materialized(settings, checked, journal), notes
    except BaseException as error:
        journal.close({"end": "broken", "error": str(error), "ended_at": time_now()})
        raise


def _describe_start(settings: CollectSettings, planned: int, gym: DiscoveredGym) -> dict[str, Any]:
    """Return what the manifest records of a start."""
    start = {"started_at": time_now(), "settings": settings.to_json(), "planned": planned}
    if gym.repository is not None:
        start["repository"] = gym.repository
    if gym.logs is not None:  # relative, so that both can be moved together
        start["logs"] = os.path.relpath(gym.logs, settings.output.parent)
    return start


def _open_materialized(
    settings: CollectSettings, checked: CheckedInput, journal: Journal
) -> MaterializedInputs | None:
    if not settings.write_materialized_inputs:
        return None
    if settings.until is not None:
        return MaterializedInputs.open_in_any_order(journal.files, ())
    numbers = checked.inspection.numbers
    whole = Plan(checked.plan.sort_by_identity(), numbers=numbers)
    if pack_numbers(numbers) is not None:
        return MaterializedInputs.open_in_any_order(journal.files, whole)
    is_reordered = settings.interleave_repeats or settings.dispatch_longest_first
    return MaterializedInputs.open(
        journal.files,
        whole,
        needed=AFTER_ALL if is_reordered else journal.finished.last(),
        changed=any(not change.is_of_maker for change in journal.changes),
    )


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
    limits: RunLimits
    stop: Stop
    servers: Collection[str] = ()
    """The servers whose outages are logged."""
    materialized: MaterializedInputs | None = None
    invalid_rows: int = 0
    options: CollectOptions = field(default_factory=CollectOptions)
    on_scored: Callable[[Scored], None] | None = None
    until: UntilRun | None = field(init=False, default=None)
    """The draws of a run with an aim."""
    started_at: str = field(init=False, default_factory=lambda: time_now())
    metrics: RunMetrics = field(init=False)
    counters: RunCounters = field(init=False)
    _window: Window = field(init=False)
    _budget: DispatchBudget | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        options = self.options
        self.metrics = RunMetrics(frozenset(options.count_failure_classes_as_zero))
        if options.dispatch_budget_s is not None:
            self._budget = DispatchBudget(options.dispatch_budget_s, options.drain_margin_s)
        finished = len(self.journal.finished)
        limits = self.limits
        self._window = build_window(limits.in_parallel, self.rollouts - finished, limits.most_in_parallel)
        auto = self._window if isinstance(self._window, AutoWindow) else None
        self.counters = RunCounters(self.rollouts, finished, auto=auto)

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
            seconds = monotonic() - started
            estimate = self._end_draws()
            results, missing = await self._write_metrics(plan)
            overall = await asyncio.to_thread(self.metrics.overall, self.planned)
        except BaseException as error:
            self.close_files({"end": "broken", "error": repr(error)})
            raise
        budget = [self._budget.describe()] if self._budget and self._budget.is_spent else []
        summary = CollectSummary(
            files=self.journal.files,
            agents=self._summarize(results, estimate),
            counters=self.counters,
            seconds=seconds,
            resumed=self.journal.resumed,
            overall=summarize_overall(overall) if overall else None,
            failures=self.counters.failure_groups.rank_groups(),
            failed_tool_calls=self.metrics.rank_failed_tool_calls(),
            logs=self.gym.logs,
            stop=self.stop.reason or self._untrainable(),
            invalid_rows=self.invalid_rows,
            notes=[*notes(), *self.journal.notes, *missing, *budget],
            repository=self.gym.repository,
            must_be_complete=self.options.require_complete,
            estimate=estimate,
        )
        ending = {"end": summary.end, "stop": asdict(summary.stop) if summary.stop else None}
        self.close_files(ending | ({"until": estimate.describe_end()} if estimate else {}))
        return summary

    async def _write_metrics(
        self, plan: Iterable[PlannedAttempt]
    ) -> tuple[dict[str, AggregateResult], list[str]]:
        """Write the metrics, and beside them the index of the rows and the texts of their tokens.

        Return the metrics with notes on missing ones.
        """
        if self.options.count_missing_rollouts_as_zero:
            await asyncio.to_thread(self.metrics.note_missing, plan)
        environment = EnvironmentMetrics(self.caller, max_rows=self.options.environment_metrics_max_rows)
        models = [*models_with_ids(self.servers, self.gym.config)]
        written: tuple[dict[str, AggregateResult], list[str]]
        written, _, _ = await asyncio.gather(
            write_metrics(self.metrics, self.journal, self.planned, environment, self.stop),
            index_large_rows(self.journal.files),
            write_token_texts(self.journal.files, self.caller, models),
        )
        return written

    async def _run_plan(self, plan: Iterable[PlannedAttempt], attempter: Attempter, display: Display) -> None:
        if self.materialized is not None:
            is_drawn = self.until is not None
            write = self.materialized.written_as_drawn if is_drawn else self.materialized.write_from
            plan = write(plan)
        if self._budget is not None:
            plan, attempter = self._budget.limit_starts(plan), self._budget.time_attempts(attempter)
        collector = Collector(
            attempter,
            self.journal,
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
        try:
            async with (
                log_outages(self.caller, self.servers, on_refused=self._window.note_refused),
                show_progress(self.counters, display),
            ):
                await collector.run(plan)
                if self.materialized is not None:
                    self.materialized.refuse_changes()
        except GymError as error:
            log.debug("the run failed; its summary has the reason", exc_info=error)
            self.stop.drain(StopReason("broken", error.failure.message, error.failure.remedy))

    def _note(self, planned: PlannedAttempt, result: Scored | Failed) -> None:
        self.metrics.note(planned, result)
        if self.until is not None:
            self.until.note(planned, result)
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
    return datetime.fromtimestamp(wall_clock(), UTC).isoformat(timespec="seconds")
