"""A collection from settings to summary: check the input, run the plan, compute metrics and summarize.

`collect` is the entry point of the commands. It needs a running gym and a caller that reaches it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from nemo_gym import clock
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.metrics import Planned
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Journal, open_journal, refuse_existing
from nemo_gym.rollouts.output.manifest import identity_of
from nemo_gym.rollouts.output.materialized import MaterializedInputs
from nemo_gym.rollouts.plan.inspection import DatasetInspection, inspect
from nemo_gym.rollouts.plan.plan import Plan
from nemo_gym.rollouts.run._outage_watch import log_outages
from nemo_gym.rollouts.run._preflight import check_servers
from nemo_gym.rollouts.run._window import AutoWindow, window_of
from nemo_gym.rollouts.run.agent_attempter import AgentAttempter
from nemo_gym.rollouts.run.collector import Attempter, Collector
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.progress import Display, NoDisplay, show_progress
from nemo_gym.rollouts.run.required_servers import require_agents, required_servers
from nemo_gym.rollouts.run.run_metrics import EnvironmentMetrics, RunMetrics, write_metrics
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.stopping import Stop, StopReason, StopRules
from nemo_gym.rollouts.run.summary import CollectSummary, counts_of, summarize_agents
from nemo_gym.transport import Caller

log = logging.getLogger(__name__)


async def collect(
    settings: CollectSettings,
    caller: Caller,
    gym: DiscoveredGym,
    *,
    stop: Stop | None = None,
    display: Display | None = None,
    attempter: Attempter | None = None,
    clock: Callable[[], float] = clock.monotonic,
) -> CollectSummary:
    """Collect rollouts from the servers of `gym`.

    `stop` lets the caller end the run early (`stop_on_signals`); `attempter` replaces the agents.

    Raises:
        ConfigError: rows, agents or output are invalid. Nothing has run.
        GymError: a server or an engine is unreachable. Nothing has run.

    An error during the run (a full disk) ends it and becomes the summary's `stop`.
    """
    prepared = await _prepare(settings, caller, gym)
    run = _Run(settings, caller, gym, prepared, stop or Stop(), clock)
    return await run.execute(display or NoDisplay(), attempter)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """The validated input and the opened output of a run."""

    inspection: DatasetInspection
    journal: Journal
    materialized: MaterializedInputs | None
    plan: Plan
    servers: frozenset[str]
    """The names of the servers that take part."""


async def _prepare(settings: CollectSettings, caller: Caller, gym: DiscoveredGym) -> _Prepared:
    files = RunFiles.of(settings.output)
    refuse_existing(files, settings.existing)
    inspection = await asyncio.to_thread(inspect, settings.plan)
    if not settings.skip_invalid_rows or not inspection.rollouts:
        inspection.refuse_faults()
    require_agents(inspection.agents, gym.config)
    servers = required_servers(inspection.agents, gym.config)
    await check_servers(caller, inspection.agents, servers)
    return await asyncio.to_thread(_open_files, settings, files, inspection, servers)


def _open_files(
    settings: CollectSettings,
    files: RunFiles,
    inspection: DatasetInspection,
    servers: Mapping[str, Mapping[str, Any]],
) -> _Prepared:
    journal = open_journal(
        files,
        identity_of(settings.plan, inspection, servers),
        {"started_at": _now(), "settings": settings.to_json()},
        is_planned=inspection.membership(),
        existing=settings.existing,
        allow_identity_change=settings.allow_identity_change,
    )
    try:
        materialized = _open_materialized(settings, journal, inspection)
    except BaseException as error:
        journal.close({"end": "broken", "error": str(error), "ended_at": _now()})
        raise
    rest = Plan(settings.plan, first_tasks=inspection.first_tasks, finished=journal.finished)
    return _Prepared(inspection, journal, materialized, rest, frozenset(servers))


def _open_materialized(
    settings: CollectSettings, journal: Journal, inspection: DatasetInspection
) -> MaterializedInputs | None:
    if not settings.write_materialized_inputs:
        return None
    whole = Plan(settings.plan, first_tasks=inspection.first_tasks)
    needed = journal.finished.last()
    return MaterializedInputs.open(journal.files, whole, needed=needed, changed=bool(journal.changes))


class _Run:
    """One start of a run, after all checks."""

    def __init__(
        self,
        settings: CollectSettings,
        caller: Caller,
        gym: DiscoveredGym,
        prepared: _Prepared,
        stop: Stop,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._caller = caller
        self._gym = gym
        self._prepared = prepared
        self._stop = stop
        self._clock = clock
        self._metrics = RunMetrics()
        inspection, journal = prepared.inspection, prepared.journal
        finished = len(journal.finished)
        self._window = window_of(settings.limits.in_parallel, inspection.rollouts - finished)
        auto = self._window if isinstance(self._window, AutoWindow) else None
        self._counters = RunCounters(inspection.rollouts, finished, auto=auto)

    async def execute(self, display: Display, attempter: Attempter | None) -> CollectSummary:
        started = self._clock()
        try:
            await self._run_plan(display, attempter)
            seconds = self._clock() - started
            agents, notes = await write_metrics(
                self._metrics,
                self._prepared.journal,
                self._planned(),
                EnvironmentMetrics(
                    self._caller, self._gym.token, max_rows=self._settings.environment_metrics_max_rows
                ),
                self._stop,
            )
        except BaseException as error:
            self._close({"end": "broken", "error": repr(error)})
            raise
        summary = CollectSummary(
            files=self._prepared.journal.files,
            agents=summarize_agents(agents, self._planned()),
            counters=self._counters,
            seconds=seconds,
            resumed=self._prepared.journal.resumed,
            stop=self._stop.reason or self._untrainable(),
            invalid_rows=self._prepared.inspection.invalid,
            notes=[*self._prepared.inspection.notes, *self._prepared.journal.notes, *notes],
        )
        self._close({"end": summary.end, "stop": asdict(summary.stop) if summary.stop else None})
        return summary

    def _untrainable(self) -> StopReason | None:
        """Return why the rows cannot be used for training, or None."""
        masks = self._metrics.masks
        excess = masks.excess(self._settings.max_masked_fraction)
        return StopReason("too_many_masked", excess, masks.remedy) if excess else None

    async def _run_plan(self, display: Display, attempter: Attempter | None) -> None:
        try:
            async with (
                log_outages(self._caller, self._prepared.servers, on_refused=self._window.note_refused),
                show_progress(self._counters, display, self._clock),
            ):
                materialized = self._prepared.materialized
                plan = self._prepared.plan
                await self._collector(attempter).run(
                    materialized.written_from(plan) if materialized else plan
                )
                if materialized is not None:
                    materialized.refuse_changes()
        except GymError as error:
            log.debug("the run failed; its summary has the reason", exc_info=error)
            self._stop.drain(StopReason("broken", error.failure.message, error.failure.remedy))

    def _collector(self, attempter: Attempter | None) -> Collector:
        settings = self._settings
        agents = AgentAttempter(
            self._caller, timeout_s=settings.limits.rollout_timeout_s, token=self._gym.token
        )
        return Collector(
            attempter or agents,
            self._prepared.journal,
            self._counters,
            limits=settings.limits,
            rules=StopRules(
                self._counters.planned,
                identical_failures=settings.stop_after_identical_failures,
                max_failed_fraction=settings.max_failed_fraction,
            ),
            stop=self._stop,
            on_settled=self._metrics.note,
            window=self._window,
        )

    def _planned(self) -> dict[str, Planned]:
        inspection = self._prepared.inspection
        return {
            agent: Planned(tasks, inspection.rollouts_of[agent]) for agent, tasks in inspection.agents.items()
        }

    def _close(self, ending: Mapping[str, Any]) -> None:
        try:
            if self._prepared.materialized is not None:
                self._prepared.materialized.close()
            self._prepared.journal.close({**ending, "ended_at": _now(), "counts": counts_of(self._counters)})
        except (ConfigError, OSError) as error:  # a full disk must not hide the summary
            log.warning("cannot record the end of the run in its manifest: %s", error)


def _now() -> str:
    return datetime.fromtimestamp(clock.wall_clock(), UTC).isoformat(timespec="seconds")
