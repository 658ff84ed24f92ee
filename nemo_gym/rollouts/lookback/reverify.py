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
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nemo_gym import clock
from nemo_gym.episodes.driver import read_failure
from nemo_gym.failures import Boundary, ConfigError, Failure, GymError, build_error
from nemo_gym.json_objects import dump_json, member, parse_json
from nemo_gym.metrics import Planned
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Existing, Journal, open_journal
from nemo_gym.rollouts.output.manifest import AllowedChanges, code_identity, keep_lasting
from nemo_gym.rollouts.output.task_matching import read_stored_rows
from nemo_gym.rollouts.plan.compression import holds_text, open_content
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult, Failed, Scored
from nemo_gym.rollouts.run.control import ServeControl, StartControl
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.execution import RunExecution, time_now
from nemo_gym.rollouts.run.options import CollectOptions, RunLimits
from nemo_gym.rollouts.run.preflight import read_engines
from nemo_gym.rollouts.run.progress import Display
from nemo_gym.rollouts.run.required_servers import find_required_servers
from nemo_gym.rollouts.run.stopping import Stop
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rows.compose import (
    attach_response,
    compose_reverified_row,
    drop_result,
    number_row,
    replace_params,
)
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_at
from nemo_gym.rows.models import ReverifyMode
from nemo_gym.rows.parts import read_agent_or_unknown, read_params, read_response, read_reverification
from nemo_gym.rows.verdict import describe_failure, is_judge_failure, read_failure_class, read_reward
from nemo_gym.tables import write_number
from nemo_gym.transport import Caller, Deadline
from nemo_gym.transport.context import SESSION_HEADER
from nemo_gym.transport.directory import server_block
from nemo_gym.transport.server_client import ServerReply


@dataclass(frozen=True, slots=True)
class ReverifySettings:
    """The settings of one start of a reverification."""

    output: Path
    judge_failed_only: bool = False
    force: bool = False
    """Also verify with environments that don't declare that they can."""
    existing: Existing = Existing.REFUSE
    allowed: AllowedChanges = field(default_factory=AllowedChanges)
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
        mark = read_reverification(scored.row)
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
            before, after = (write_number(total / again, 4) for total in (self.before, self.after))
            means = f"their mean went from {before} to {after}"
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
    def from_run(cls, run: StoredRun) -> Survey:
        verifiable = {identity: read_agent_or_unknown(run.scored.row(identity)) for identity in run.scored}
        others: dict[RolloutId, str] = {}
        for identity in run.list_failed():
            row = run.failures.row(identity)
            (verifiable if is_judge_failure(row) else others)[identity] = read_agent_or_unknown(row)
        return cls(verifiable, others)

    def count_planned(self) -> dict[str, Planned]:
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
    return agents | set(find_required_servers({find_environment(agent, config) for agent in agents}, config))


def _servers_of(survey: Survey, config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the configuration of the servers needed, by name."""
    return {name: config[name] for name in servers_for(survey.verifiable.values(), config)}


async def reverify(
    settings: ReverifySettings,
    stored: StoredRun,
    survey: Survey,
    caller: Caller,
    gym: DiscoveredGym,
    *,
    stop: Stop | None = None,
    display: Display | None = None,
    serve: ServeControl | None = None,
) -> CollectSummary:
    """Verify the rollouts of `stored`, of which `survey` is, with the servers of `gym`. Raises `ConfigError`."""
    modes = await _read_allowed_modes(settings, survey, caller, gym.config)
    servers = _servers_of(survey, gym.config)
    engines = await read_engines(caller, servers)
    journal = await asyncio.to_thread(_open, settings, stored, survey, gym.config, engines)
    changes, identical = Changes(), settings.stop_after_identical_failures
    execution = RunExecution(
        journal,
        caller,
        gym,
        rollouts=len(survey.verifiable),
        planned=survey.count_planned(),
        control=StartControl(journal, settings.limits, clocks=gym.clocks(caller, servers), serve=serve),
        stop=stop or Stop(),
        options=CollectOptions(stop_after_identical_failures=identical, max_masked_fraction=1.0),
        on_scored=changes.note,
    )
    for attempt, failed in _other_failures(stored, survey):
        execution.metrics.note(attempt, failed)
    reverifier = _build_reverifier(settings, stored, caller, gym, modes)
    plan = _attempts_left(stored, survey, journal)
    summary = await execution.run(
        plan, reverifier, display, lambda: [*changes.describe(), *_notes(stored, survey, modes)]
    )
    # The rows have the seconds of the attempts, which were made in another run.
    return replace(summary, agents=[replace(agent, times=None) for agent in summary.agents])


def _build_reverifier(
    settings: ReverifySettings,
    stored: StoredRun,
    caller: Caller,
    gym: DiscoveredGym,
    modes: dict[str, ReverifyMode],
) -> Reverifier:
    return Reverifier(
        stored,
        caller,
        gym.config,
        modes,
        judge_failed_only=settings.judge_failed_only,
        timeout_s=settings.limits.rollout_timeout_s,
    )


def _other_failures(stored: StoredRun, survey: Survey) -> Iterator[tuple[PlannedAttempt, Failed]]:
    """Yield the failed rollouts that cannot be verified again."""
    for identity, agent in survey.others.items():
        row = stored.failures.row(identity)
        yield (
            PlannedAttempt(identity, agent, b""),
            Failed(describe_failure(row), str(read_failure_class(row))),
        )


def _attempts_left(stored: StoredRun, survey: Survey, journal: Journal) -> Iterator[PlannedAttempt]:
    """Yield the rollouts to verify that the journal does not have, in order."""
    for identity, agent in sorted(survey.verifiable.items()):
        if identity not in journal.finished:
            yield PlannedAttempt(identity, agent, find_task_row(stored, identity))


async def _read_allowed_modes(
    settings: ReverifySettings, survey: Survey, caller: Caller, config: Mapping[str, Any]
) -> dict[str, ReverifyMode]:
    """Return the reverify mode of each environment. Raises `ConfigError` for those that are not stateless."""
    environments = {find_environment(agent, config) for agent in survey.verifiable.values()}
    modes = await read_modes(caller, environments)
    undeclared = [name for name, mode in modes.items() if mode is not ReverifyMode.STATELESS]
    if undeclared and not settings.force:
        named = ", ".join(f"`{name}` ({modes[name]})" for name in undeclared)
        raise ConfigError(
            f"rollouts can't be verified without their sessions at {named}",
            code="reverify_mode",
            remedy="An environment whose verify needs no session declares REVERIFY_MODE = ReverifyMode.STATELESS "
            "in its config class. +force=true verifies anyway; check the results.",
        )
    return modes


def _open(
    settings: ReverifySettings,
    stored: StoredRun,
    survey: Survey,
    config: Mapping[str, Any],
    engines: Mapping[str, Mapping[str, Any]],
) -> Journal:
    """Open the output, with the failures and the task rows of the stored run, which it must not overwrite."""
    RunFiles.from_output(settings.output).refuse_inputs(stored.files.present())
    if settings.existing is Existing.RESUME and settings.allowed.everything:
        _refuse_other_rollouts(RunFiles.from_output(settings.output), stored)
    servers = _servers_of(survey, config)
    identity = {
        "datasets": [{"sha256": stored.digest(), "rows": len(survey.verifiable)}],
        "settings": {"judge_failed_only": settings.judge_failed_only, "force": settings.force},
        "config": {name: keep_lasting(servers[name]) for name in sorted(servers)},
        "code": code_identity(config, servers),
        **({"engines": dict(engines)} if engines else {}),
    }
    journal = open_journal(
        RunFiles.from_output(settings.output),
        identity,
        {"started_at": time_now(), "settings": {"reverified": str(stored.files.rows)}},
        is_planned=survey.verifiable.__contains__,
        existing=settings.existing,
        allowed=settings.allowed,
    )
    for other in survey.others:
        journal.add_failure(stored.failures.read_line(other))
    tasks = stored.files.materialized_inputs
    if holds_text(tasks) and not holds_text(journal.files.materialized_inputs):
        with open_content(tasks) as rows, replacing(journal.files.materialized_inputs) as copy:
            shutil.copyfileobj(rows, copy)
    return journal


def _refuse_other_rollouts(output: RunFiles, stored: StoredRun) -> None:
    """Raise `ConfigError` if the rows of the output are not of the rollouts of `stored`."""
    for identity, row in read_stored_rows(output.rows):
        rows = stored.scored if identity in stored.scored else stored.failures
        if identity in rows and rows.row(identity).get("response") != row.get("response"):
            raise ConfigError(
                f"{output.rows} has another response of {identity} than {stored.files.rows}: it is of another run",
                code="other_rollouts",
                remedy="Write to another file with +output_jsonl_fpath (gym: -o).",
            )


def _notes(stored: StoredRun, survey: Survey, modes: Mapping[str, ReverifyMode]) -> Iterator[str]:
    yield from stored.describe_progress()
    for name, mode in modes.items():
        if mode is not ReverifyMode.STATELESS:
            yield f"`{name}` does not declare that it can verify without its sessions ({mode}): +force=true"
    if survey.others:
        yield f"{len(survey.others):,} rollouts failed without a response to verify; they remain failures"


# --- One rollout ------------------------------------------------------------------------------------------------------
# Verifies a stored rollout again: its environment scores the stored response.


def find_environment(agent: str, config: Mapping[str, Any]) -> str:
    """Return the resources server that verifies the agent's rollouts. Raises `ConfigError` if there is none."""
    name = member(server_block(config.get(agent)), "resources_server", "name")
    if not isinstance(name, str):
        raise ConfigError(
            f"agent `{agent}` has no `resources_server` to verify its rollouts",
            code="no_resources_server",
            remedy="Use the configuration that the rollouts were collected with.",
        )
    return name


async def read_modes(caller: Caller, environments: Iterable[str]) -> dict[str, ReverifyMode]:
    """Return the reverify mode of each environment; `UNKNOWN` for those without the route."""
    modes = {}
    for name in sorted(set(environments)):
        reply = await caller.call(name, "GET", "/reverify_mode", repeatable=True)
        mode = reply.json() if reply.ok else None
        modes[name] = ReverifyMode(mode) if mode in set(ReverifyMode) else ReverifyMode.UNKNOWN
    return modes


@dataclass(frozen=True, slots=True)
class Reverifier:
    """An `Attempter` that verifies the rollouts of a stored run instead of calling agents."""

    run: StoredRun
    caller: Caller
    config: Mapping[str, Any]
    modes: Mapping[str, ReverifyMode]
    judge_failed_only: bool = False
    timeout_s: float | None = None

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        is_scored = task.identity in self.run.scored
        line = (self.run.scored if is_scored else self.run.failures).read_line(task.identity)
        stored = parse_json(line)
        if self.judge_failed_only and is_scored:
            return AgentAnswer(number_row(stored, task.identity), line if identity_at(line) else None)
        environment = find_environment(task.agent, self.config)
        try:
            verified = await self._verify(environment, task, stored)
        except GymError as error:
            return error.failure
        reward_before = read_reward(stored) if is_scored else None
        row = parse_json(task.row)
        return AgentAnswer(compose_reverified_row(row, stored, verified, reward_before=reward_before))

    async def _verify(self, environment: str, task: PlannedAttempt, stored: AnyRow) -> dict[str, Any]:
        body = attach_response(
            replace_params(parse_json(task.row), read_params(stored)), read_response(stored)
        )
        session = clock.hex_id()
        if self.modes[environment] is ReverifyMode.STATELESS:
            return await self._post(environment, "/verify", body, session)
        await self._post(environment, "/seed_session", body, session)
        try:
            return await self._post(environment, "/verify", body, session)
        finally:
            await self._post(environment, "/close_session", {}, session)

    async def _post(self, server: str, path: str, body: Any, session: str) -> dict[str, Any]:
        """Return the JSON object of the answer. Raises the failure of an error answer."""
        reply = await self.caller.call(
            server,
            "POST",
            path,
            body=dump_json(body),
            headers={SESSION_HEADER: session},
            session=session,
            deadline=None if self.timeout_s is None else Deadline.after(self.timeout_s),
            repeatable=True,
        )
        if not reply.ok:
            raise build_error(read_failure(ServerReply(reply, "POST", server), server, f"answer {path}"))
        answer = parse_json(reply.body)
        if not isinstance(answer, dict):
            message = f"the answer of `{server}` to {path} is not a JSON object"
            raise build_error(Failure(Boundary.VERIFIER, "not_an_object", message, peer=server))
        return answer


def find_task_row(run: StoredRun, identity: RolloutId) -> bytes:
    """Return the row sent to the agent; if it is missing, the stored row without its results."""
    if identity in run.tasks:
        return run.tasks.read_line(identity)
    stored = (run.scored if identity in run.scored else run.failures).row(identity)
    return identity.head() + dump_json(drop_result(stored))[1:]
