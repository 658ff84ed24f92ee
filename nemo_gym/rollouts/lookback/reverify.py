"""Verifies stored rollouts again with the current environments, without a policy.

Rollouts with a score and rollouts whose judge failed are verified; with `judge_failed_only` only the latter. The output
is a run of the same rollouts: it has the rows and failures of the earlier run with the new verdicts, can be resumed,
and has its own metrics.

An environment declares whether its rollouts can be verified without their original sessions (`GET /reverify_mode`).
Without that declaration reverification is refused: a verifier with an empty session would still return a reward.
`force` overrides this and opens a session for each rollout.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nemo_gym.failures import Boundary, ConfigError, Failure, GymError
from nemo_gym.metrics import Planned
from nemo_gym.rollouts.lookback._reverifier import (
    REVERIFIED_KEY,
    Reverifier,
    environment_of,
    read_modes,
    task_row_of,
)
from nemo_gym.rollouts.lookback.stored import StoredRun, is_judge_failure
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Existing, Journal, open_journal
from nemo_gym.rollouts.output.manifest import code_identity, lasting
from nemo_gym.rollouts.plan.compression import holds_text, open_content
from nemo_gym.rollouts.plan.identity import RolloutId
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import NG_FAILURE_CLASS_KEY, Failed, Scored
from nemo_gym.rollouts.run.collector import Collector, RunLimits
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.progress import Display, NoDisplay, show_progress
from nemo_gym.rollouts.run.required_servers import required_servers
from nemo_gym.rollouts.run.run_metrics import EnvironmentMetrics, RunMetrics, agent_of, write_metrics
from nemo_gym.rollouts.run.stopping import Stop, StopRules
from nemo_gym.rollouts.run.summary import CollectSummary, counts_of, summarize_agents
from nemo_gym.serving.rows import ReverifyMode
from nemo_gym.transport import Caller

log = logging.getLogger(__name__)

_ENVIRONMENT_METRICS_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ReverifySettings:
    """The settings of one start of a reverification."""

    output: Path
    judge_failed_only: bool = False
    force: bool = False
    """Also verify with environments that don't declare that they can."""
    existing: Existing = Existing.REFUSE
    allow_identity_change: bool = False
    limits: RunLimits = field(default_factory=RunLimits)
    stop_after_identical_failures: int = 20


@dataclass(slots=True)
class Changes:
    """Counts of changed rewards in this start of the run."""

    judged: int = 0
    """Rollouts that had no reward."""
    same: int = 0
    changed: int = 0
    before: float = 0.0
    """Sum of the earlier rewards."""
    after: float = 0.0

    def note(self, scored: Scored) -> None:
        mark = scored.row.get(REVERIFIED_KEY)
        if mark is None:
            return
        if mark["reward_before"] is None:
            self.judged += 1
            return
        self.before += mark["reward_before"]
        self.after += scored.reward
        if mark["reward_before"] == scored.reward:
            self.same += 1
        else:
            self.changed += 1

    def describe(self) -> Iterator[str]:
        again = self.same + self.changed
        if again:
            means = f"their mean went from {self.before / again:.4f} to {self.after / again:.4f}"
            yield f"{self.changed:,} of {again:,} rewards changed; {means}"
        if self.judged:
            yield f"{self.judged:,} rollouts whose judge had failed have a reward now"


@dataclass(frozen=True, slots=True)
class Survey:
    """The rollouts of a stored run with their agents."""

    verifiable: dict[RolloutId, str]
    """Rollouts with a score, and rollouts whose judge failed."""
    others: dict[RolloutId, str]
    """Rollouts that failed without a response to verify."""

    @classmethod
    def of(cls, run: StoredRun) -> Survey:
        verifiable = {identity: agent_of(run.scored.row(identity)) for identity in run.scored}
        others: dict[RolloutId, str] = {}
        for identity in run.failed():
            row = run.failures.row(identity)
            (verifiable if is_judge_failure(row) else others)[identity] = agent_of(row)
        return cls(verifiable, others)

    def planned(self) -> dict[str, Planned]:
        """Return the planned tasks and rollouts of each agent."""
        tasks: defaultdict[str, set[int]] = defaultdict(set)
        rollouts: Counter[str] = Counter()
        for identity, agent in (*self.verifiable.items(), *self.others.items()):
            tasks[agent].add(identity.task)
            rollouts[agent] += 1
        return {agent: Planned(len(tasks[agent]), rollouts[agent]) for agent in rollouts}


def servers_for(agents: Iterable[str], config: Mapping[str, Any]) -> set[str]:
    """Return the servers needed: agents (for metrics), environments, and the servers these refer to."""
    agents = set(agents)
    return agents | set(required_servers({environment_of(agent, config) for agent in agents}, config))


async def reverify(
    settings: ReverifySettings,
    stored: StoredRun,
    survey: Survey,
    caller: Caller,
    gym: DiscoveredGym,
    *,
    stop: Stop | None = None,
    display: Display | None = None,
) -> CollectSummary:
    """Verify the rollouts of `stored` with the servers of `gym`; `survey` is of `stored`.

    Raises:
        ConfigError: the environments or the output are invalid. Nothing has run.
    """
    RunFiles.of(settings.output).refuse_inputs(stored.files.present())
    work = _Reverification(settings, stored, survey, caller, gym, stop or Stop())
    return await work.run(display or NoDisplay())


class _Reverification:
    def __init__(
        self,
        settings: ReverifySettings,
        stored: StoredRun,
        survey: Survey,
        caller: Caller,
        gym: DiscoveredGym,
        stop: Stop,
    ) -> None:
        self._settings = settings
        self._stored = stored
        self._survey = survey
        self._caller = caller
        self._gym = gym
        self._stop = stop
        self._metrics = RunMetrics()
        self._changes = Changes()

    async def run(self, display: Display) -> CollectSummary:
        started = time.monotonic()
        modes = await self._allowed_modes()
        journal = await asyncio.to_thread(self._open)
        ending: dict[str, Any] = {"end": "broken"}
        counters = RunCounters(len(self._survey.verifiable), finished_before=len(journal.finished))
        try:
            await self._execute(journal, counters, modes, display)
            self._note_others()
            environment = EnvironmentMetrics(
                self._caller, self._gym.token, max_rows=_ENVIRONMENT_METRICS_ROWS
            )
            planned = self._survey.planned()
            results, notes = await write_metrics(self._metrics, journal, planned, environment, self._stop)
            summary = CollectSummary(
                files=journal.files,
                agents=summarize_agents(results, planned),
                counters=counters,
                seconds=time.monotonic() - started,
                resumed=journal.resumed,
                stop=self._stop.reason,
                notes=[*journal.notes, *self._changes.describe(), *self._notes(modes), *notes],
            )
            ending = {"end": summary.end, "stop": asdict(summary.stop) if summary.stop else None}
            return summary
        finally:
            journal.close({**ending, "counts": counts_of(counters)})

    async def _allowed_modes(self) -> dict[str, ReverifyMode]:
        """Return the reverify mode of each environment. Raises `ConfigError` for those that are not stateless."""
        environments = {
            environment_of(agent, self._gym.config) for agent in set(self._survey.verifiable.values())
        }
        modes = await read_modes(self._caller, environments)
        undeclared = [name for name, mode in modes.items() if mode is not ReverifyMode.STATELESS]
        if undeclared and not self._settings.force:
            named = ", ".join(f"`{name}` ({modes[name]})" for name in undeclared)
            raise ConfigError(
                f"rollouts can't be verified without their sessions at {named}",
                code="reverify_mode",
                remedy="An environment whose verify needs no session declares REVERIFY_MODE = ReverifyMode.STATELESS "
                "in its config class. +force=true verifies anyway; check the results.",
            )
        return modes

    def _open(self) -> Journal:
        config = self._gym.config
        servers = servers_for(self._survey.verifiable.values(), config)
        identity = {
            "datasets": [{"sha256": self._stored.digest(), "rows": len(self._survey.verifiable)}],
            "settings": {
                "judge_failed_only": self._settings.judge_failed_only,
                "force": self._settings.force,
            },
            "config": {name: lasting(config[name]) for name in sorted(servers)},
            "code": code_identity(),
        }
        start = {"settings": {"reverified": str(self._stored.files.rows)}}
        journal = open_journal(
            RunFiles.of(self._settings.output),
            identity,
            start,
            is_planned=self._survey.verifiable.__contains__,
            existing=self._settings.existing,
            allow_identity_change=self._settings.allow_identity_change,
        )
        for other in self._survey.others:
            journal.add_failure(self._stored.failures.line(other))
        tasks = self._stored.files.materialized_inputs
        if holds_text(tasks) and not holds_text(journal.files.materialized_inputs):
            with open_content(tasks) as rows, replacing(journal.files.materialized_inputs) as copy:
                shutil.copyfileobj(rows, copy)
        return journal

    async def _execute(
        self, journal: Journal, counters: RunCounters, modes: Mapping[str, ReverifyMode], display: Display
    ) -> None:
        settings = self._settings
        reverifier = Reverifier(
            self._stored,
            self._caller,
            self._gym.config,
            modes,
            judge_failed_only=settings.judge_failed_only,
            timeout_s=settings.limits.rollout_timeout_s,
            token=self._gym.token,
        )
        rules = StopRules(counters.planned, identical_failures=settings.stop_after_identical_failures)
        collector = Collector(
            reverifier,
            journal,
            counters,
            limits=settings.limits,
            rules=rules,
            stop=self._stop,
            on_settled=self._note,
        )
        async with show_progress(counters, display):
            try:
                await collector.run(self._plan(journal))
            except GymError as error:
                log.debug("the run failed; its summary has the reason", exc_info=error)

    def _plan(self, journal: Journal) -> Iterator[PlannedAttempt]:
        for identity in sorted(self._survey.verifiable):
            if identity not in journal.finished:
                yield PlannedAttempt(
                    identity, self._survey.verifiable[identity], task_row_of(self._stored, identity)
                )

    def _note(self, planned: PlannedAttempt, result: Scored | Failed) -> None:
        self._metrics.note(planned, result)
        if isinstance(result, Scored):
            self._changes.note(result)

    def _note_others(self) -> None:
        """Count the failures that are not verified."""
        for identity, agent in self._survey.others.items():
            row = self._stored.failures.row(identity)
            failed = Failed(_failure_of(row), str(row.get(NG_FAILURE_CLASS_KEY)))
            self._metrics.note(PlannedAttempt(identity, agent, b""), failed)

    def _notes(self, modes: Mapping[str, ReverifyMode]) -> Iterator[str]:
        for name, mode in modes.items():
            if mode is not ReverifyMode.STATELESS:
                yield f"`{name}` does not declare that it can verify without its sessions ({mode}): +force=true"
        if self._survey.others:
            yield f"{len(self._survey.others):,} rollouts failed without a response to verify; they remain failures"


def _failure_of(row: Mapping[str, Any]) -> Failure:
    """Return the failure in a stored failure row."""
    stored = Failure.from_wire({"error": row.get("_ng_failure")})
    kind = str(row.get(NG_FAILURE_CLASS_KEY))
    return stored or Failure(Boundary.AGENT, kind, kind)
