"""Forks: attempts that share the first calls of a recorded one, and go on from there by themselves.

Each fork runs its agent and its tools anew, so it has sessions of its own. Its rows are a run of their own: they are in
no mean of the parent's run. The shared calls are context in a fork and trained in its parent only, so over a parent and
its forks every sampled token is trained once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from nemo_gym import clock
from nemo_gym.engines.attempts.record import AttemptRecord, RecordedCall, read_attempt
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import member
from nemo_gym.metrics import Planned
from nemo_gym.rollouts.lookback.fork_values import describe_left_out, describe_values, read_values
from nemo_gym.rollouts.lookback.reverify import find_task_row
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.output.attempt_records import AttemptRecords, list_attempts
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Existing, Journal, open_journal, refuse_existing
from nemo_gym.rollouts.output.manifest import (
    AllowedChanges,
    Manifest,
    code_identity,
    keep_lasting,
    refuse_changes,
)
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.agent_attempter import AgentAttempter
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult
from nemo_gym.rollouts.run.control import ServeControl, StartControl
from nemo_gym.rollouts.run.discovery import DiscoveredGym
from nemo_gym.rollouts.run.durable_attempts import (
    DurableAttempts,
    describe_replay,
    find_recorders,
    find_replay_failure,
    find_unsafe,
)
from nemo_gym.rollouts.run.execution import RunExecution, time_now
from nemo_gym.rollouts.run.options import CollectOptions, DurabilityOptions, RunLimits
from nemo_gym.rollouts.run.progress import Display
from nemo_gym.rollouts.run.required_servers import find_required_servers
from nemo_gym.rollouts.run.stopping import Stop
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rows.calls import mark_shared_calls
from nemo_gym.rows.compose import add_fork, add_replay
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_in, replace_identity
from nemo_gym.rows.parts import read_agent
from nemo_gym.serving.durable.plans import ReplayMode, ReplayPlan
from nemo_gym.serving.durable.tool_lines import describe_given
from nemo_gym.tables import write_count
from nemo_gym.transport import Caller
from nemo_gym.transport.directory import server_block


class ForkSettings(NamedTuple):
    """The turn at which attempts are forked, and the number of forks."""

    turn: int
    """The calls that forks share with their parent; negative ones count from the end."""
    forks: int
    output: Path
    mode: ReplayMode = ReplayMode.FORK
    existing: Existing = Existing.REFUSE
    limits: RunLimits = RunLimits()
    options: DurabilityOptions = DurabilityOptions()
    allowed: AllowedChanges = AllowedChanges()


class Parent(NamedTuple):
    """A recorded attempt, of which the first `turn` calls of its policy are shared."""

    identity: RolloutId
    agent: str
    row: bytes
    """The task row."""
    folder: Path
    turn: int
    calls: dict[str, int]
    """By model server, the calls that forks share."""
    tools_until: float | None
    """When the last tool had ended whose result forks share; None for all tools."""
    shared_tokens: int
    """The sampled tokens of the shared calls, which a fork does not pay."""
    later_tokens: int
    """Those of the calls after the turn: about what one fork pays."""
    later_calls: int
    """The calls after the turn: about what one fork makes."""

    def to_json(self) -> dict[str, Any]:
        return {
            "task": self.identity.task,
            "repeat": self.identity.repeat,
            "attempt": self.folder.name,
            "turn": self.turn,
            "shared_calls": sum(self.calls.values()),
            "calls_per_fork": self.later_calls,
            "shared_tokens": self.shared_tokens,
            "tokens_per_fork": self.later_tokens,
        }


def find_parents(
    run: StoredRun,
    turn: int,
    *,
    task: int | None = None,
    repeat: int | None = None,
) -> list[Parent]:
    """Return the recorded attempts of a run to fork, of one task or rollout or of all. Raises `ConfigError`."""
    folder = run.files.attempts
    latest: dict[RolloutId, tuple[int, Path, AttemptRecord]] = {}
    for name in list_attempts(folder):
        record = read_attempt(folder / name.folder)
        if record.mismatches or (name.identity in latest and latest[name.identity][0] > name.number):
            continue
        latest[name.identity] = name.number, folder / name.folder, record
    config = _read_manifest(run).identity.get("config", {})
    wanted = [each for each in sorted(latest) if task in (None, each.task) and repeat in (None, each.repeat)]
    if not wanted:
        raise _no_record(run, task, repeat)
    return [_build_parent(run, each, *latest[each][1:], turn, config) for each in wanted]


def _no_record(run: StoredRun, task: int | None, repeat: int | None) -> ConfigError:
    named = f"task {task}" + (f", repeat {repeat}" if repeat is not None else "")
    known = {each.task for each in (*run.scored, *run.tasks)}
    if task is not None and task not in known:
        return ConfigError(
            f"{run.files.rows} has no {named}", code="no_rollout", remedy="Choose another --task."
        )
    whose = "any rollout" if task is None else named
    return ConfigError(
        f"{run.files.attempts} has no record of {whose}: it was deleted with its row safe, or never made",
        code="no_record",
        remedy="Run with +durability=process +keep_attempts=all.",
    )


def _build_parent(
    run: StoredRun,
    identity: RolloutId,
    folder: Path,
    record: AttemptRecord,
    turn: int,
    config: Mapping[str, Any],
) -> Parent:
    row = find_task_row(run, identity)
    agent = read_agent(orjson.loads(row)) or ""
    server = _find_policy(agent, config, record)
    calls = record.list_answered(server)
    wanted = turn if turn >= 0 else len(calls) + turn
    if not 0 <= wanted <= len(calls):
        raise ConfigError(
            f"{identity} has {write_count(len(calls), 'answered call', 'answered calls')}, and no turn {turn}",
            code="turn_out_of_range",
            remedy=f"Choose --turn from 0 to {len(calls)}, or from -{len(calls)} to -1.",
        )
    shared = _list_shared(record, calls, wanted)
    counts: dict[str, int] = {}
    for call in shared:
        counts[call.server] = counts.get(call.server, 0) + 1
    paid = sum(call.sampled_tokens for call in shared)
    whole = sum(call.sampled_tokens for call in record.list_answered())
    later = len(record.list_answered()) - len(shared)
    until = _find_end_of_tools(calls, wanted)
    return Parent(identity, agent, row, folder, wanted, counts, until, paid, whole - paid, later)


def _find_policy(agent: str, config: Mapping[str, Any], record: AttemptRecord) -> str:
    """Return the model server of an agent; without one, the server of the record's first call."""
    named = member(server_block(config.get(agent) or {}) or {}, "model_server", "name")
    return str(named) if isinstance(named, str) else next((call.server for call in record.calls), "")


def _list_shared(record: AttemptRecord, calls: Sequence[RecordedCall], turn: int) -> list[RecordedCall]:
    """Return the first calls of the policy, and those of other servers that were over by then."""
    if not turn:
        return []
    end = calls[turn - 1].completed_at or 0.0
    others = (call for call in record.list_answered() if call.server != calls[0].server)
    return [*calls[:turn], *(call for call in others if (call.completed_at or 0.0) <= end)]


def _find_end_of_tools(calls: Sequence[RecordedCall], turn: int) -> float | None:
    """Return a time after the tools that call `turn` asked for, and before those of the next; None without a next call.

    It is the middle of the next call, so that the clocks of two machines may differ by half of it.
    """
    if turn >= len(calls):
        return None
    following = calls[turn]
    assert following.completed_at is not None
    return (following.started_at + following.completed_at) / 2


class _Replayed(NamedTuple):
    """The record that an attempt at a fork replays, and how many of its calls."""

    folder: Path
    calls: int
    mode: ReplayMode


@dataclass(slots=True)
class ForkAttempts(DurableAttempts):
    """The attempts at forks."""

    mode: ReplayMode = ReplayMode.FORK
    parents: dict[RolloutId, tuple[Parent, int]] = field(default_factory=dict)
    """By the identity of a fork: its parent and its number."""
    rows: Path | None = None
    """The file of the forks' rows."""

    async def end(self, *, is_complete: bool = True) -> list[str]:
        notes = await DurableAttempts.end(self, is_complete=is_complete)
        values = await asyncio.to_thread(read_values, self.rows) if self.rows is not None else []
        return [*describe_values(values), *notes]

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        """Make an attempt, which continues the one before if that was interrupted after the shared calls."""
        parent, number = self.parents[task.identity]
        replayed = await asyncio.to_thread(self._find_replayed, task.identity, parent)
        name = self.records.name_next(task.identity)
        folder = self.records.folder / name.folder
        if replayed.calls:
            await asyncio.to_thread(self._build_fork_plan(parent, number, replayed).write, folder)
        began = clock.monotonic()
        continues = replayed.mode is ReplayMode.CONTINUE
        result = await self.agents.attempt(task, str(name), continues=continues)
        seconds = clock.monotonic() - began
        result = await asyncio.to_thread(
            self._describe_fork, parent, number, replayed, result, folder, seconds
        )
        await self._note_end(task.identity, result, name)
        return result

    def _find_replayed(self, identity: RolloutId, parent: Parent) -> _Replayed:
        """Return the record of an earlier attempt at a fork that has gone on after the turn, or its parent's."""
        shared = sum(parent.calls.values())
        source = self.records.find_longest(identity) if self.records.may_continue(identity) else None
        if source is not None and (calls := len(read_attempt(source).list_answered())) > shared:
            return _Replayed(source, calls, ReplayMode.CONTINUE)
        return _Replayed(parent.folder, shared, self.mode)

    def _build_fork_plan(self, parent: Parent, number: int, replayed: _Replayed) -> ReplayPlan:
        if replayed.mode is ReplayMode.CONTINUE:
            return self.build_plan(replayed.folder).model_copy(update={"seed": number + 1})
        options = self.options
        return ReplayPlan(
            mode=self.mode,
            source=parent.folder,
            calls=parent.calls,
            tools_until=parent.tools_until,
            noise=[*options.replay_noise],
            strict=options.replay_strict,
            seed=number + 1,
        )

    def _describe_fork(
        self,
        parent: Parent,
        number: int,
        replayed: _Replayed,
        result: AttemptResult,
        folder: Path,
        seconds: float,
    ) -> AttemptResult:
        record = read_attempt(folder)
        failure = find_replay_failure(replayed.calls, record, result, self.options)
        if failure is not None:
            return failure
        assert isinstance(result, AgentAnswer)
        self.continued += replayed.mode is ReplayMode.CONTINUE
        row: AnyRow = mark_shared_calls(result.row, parent.turn)
        if replayed.calls:
            told = describe_replay(record, replayed.folder.name, replayed.mode, self.options, seconds)
            row = add_replay(row, told | describe_given(folder))
        identity = parent.identity
        about = {
            "parent": [identity.task, identity.repeat],
            "attempt": parent.folder.name,
            "turn": parent.turn,
            "number": number,
            "group": f"{identity.task}.{identity.repeat}@{parent.turn}",
        }
        return AgentAnswer(add_fork(row, about))


def plan_forks(parents: Sequence[Parent], forks: int) -> Iterator[tuple[PlannedAttempt, Parent, int]]:
    """Yield the forks of all parents. A fork keeps the task of its parent and has a repeat of its own."""
    for parent in parents:
        for number in range(forks):
            identity = RolloutId(parent.identity.task, parent.identity.repeat * forks + number)
            stored = identity_in(orjson.loads(parent.row))
            assert stored is not None
            row = replace_identity(parent.row, stored, identity)
            assert row is not None
            yield PlannedAttempt(identity, parent.agent, row), parent, number


def refuse_unsafe(agents: Collection[str], config: Mapping[str, Any]) -> None:
    """Raise `ConfigError` if an agent uses a server whose calls must not be repeated."""
    for agent, server in sorted(find_unsafe(agents, config).items()):
        raise ConfigError(
            f"`{agent}` cannot be forked: `{server}` says replay: unsafe, so its calls must not be repeated",
            code="replay_unsafe",
            remedy="Fork rollouts of environments whose tools have no effects outside of their sessions.",
        )


def check_output(settings: ForkSettings, run: StoredRun) -> None:
    """Raise `ConfigError` if the forks would be written over another run."""
    files = RunFiles.from_output(settings.output)
    files.refuse_inputs(run.files.present())
    refuse_existing(files, settings.existing)


async def fork(
    settings: ForkSettings,
    run: StoredRun,
    parents: Sequence[Parent],
    caller: Caller,
    gym: DiscoveredGym,
    *,
    stop: Stop | None = None,
    display: Display | None = None,
    serve: ServeControl | None = None,
) -> CollectSummary:
    """Make the forks of `parents` with the servers of `gym`. Raises `ConfigError`."""
    forks = list(plan_forks(parents, settings.forks))
    servers = find_required_servers({parent.agent for parent in parents}, gym.config)
    refuse_unsafe({parent.agent for parent in parents}, gym.config)
    identity = _require_same(run, servers, gym, settings)
    journal = await asyncio.to_thread(_open, settings, run, identity, {each.identity for each, _, _ in forks})
    execution = RunExecution(
        journal,
        caller,
        gym,
        rollouts=len(forks),
        planned=_count_planned(forks),
        control=StartControl(journal, settings.limits, clocks=gym.clocks(caller, servers), serve=serve),
        stop=stop or Stop(),
        servers=servers.keys(),
        options=CollectOptions(max_masked_fraction=1.0),
    )
    try:
        records = AttemptRecords.open(journal.files, identity, journal.finished, keeps_all=True)
        attempts = await _begin(settings, records, caller, servers, gym)
    except BaseException as error:
        execution.close_files({"end": "broken", "error": str(error)})
        raise
    attempts.parents = {attempt.identity: (parent, number) for attempt, parent, number in forks}
    execution.durable = attempts
    left = [attempt for attempt, _, _ in forks if attempt.identity not in journal.finished]
    return await execution.run(left, attempts, display, lambda: describe_left_out(run, parents))


def _open(
    settings: ForkSettings, run: StoredRun, identity: dict[str, Any], planned: Collection[RolloutId]
) -> Journal:
    return open_journal(
        RunFiles.from_output(settings.output),
        identity,
        {
            "started_at": time_now(),
            "settings": {"forked": str(run.files.rows.absolute()), "turn": settings.turn},
        },
        is_planned=planned.__contains__,
        existing=settings.existing,
        allowed=settings.allowed,
    )


async def _begin(
    settings: ForkSettings,
    records: AttemptRecords,
    caller: Caller,
    servers: Iterable[str],
    gym: DiscoveredGym,
) -> ForkAttempts:
    recorders = find_recorders(servers, gym.config)
    agents = AgentAttempter(caller, timeout_s=settings.limits.rollout_timeout_s)
    attempts = ForkAttempts(agents, records, settings.options, caller, recorders, mode=settings.mode)
    attempts.rows = settings.output
    await attempts.tell_recorders()
    return attempts


def _require_same(
    run: StoredRun, servers: Mapping[str, Mapping[str, Any]], gym: DiscoveredGym, settings: ForkSettings
) -> dict[str, Any]:
    """Return the identity of the forks. Raises `ConfigError` if the gym is not the one that made the parents."""
    manifest = _read_manifest(run)
    known = {name for name in servers if name in manifest.identity.get("config", {})} or servers.keys()
    before = {**manifest.identity, "config": {name: manifest.identity["config"].get(name) for name in known}}
    now = {
        **before,
        "config": {name: keep_lasting(servers[name]) for name in sorted(known)},
        "code": code_identity(gym.config, servers),
    }
    refuse_changes(Manifest(before).changes_to(now), run.files.manifest, settings.allowed)
    return {
        **now,
        "settings": {"forked": run.files.rows.name, "turn": settings.turn, "forks": settings.forks},
    }


def _read_manifest(run: StoredRun) -> Manifest:
    manifest = Manifest.read(run.files.manifest)
    if manifest is None:
        raise ConfigError(
            f"{run.files.rows} has no manifest, so its environment is not known",
            code="manifest_missing",
            remedy="Fork a run in its own folder.",
        )
    return manifest


def _count_planned(forks: Sequence[tuple[PlannedAttempt, Parent, int]]) -> dict[str, Planned]:
    agents: dict[str, set[RolloutId]] = {}
    for attempt, _, _ in forks:
        agents.setdefault(attempt.agent, set()).add(attempt.identity)
    return {agent: Planned(len({each.task for each in own}), len(own)) for agent, own in agents.items()}


def describe_cost(parents: Sequence[Parent], forks: int) -> Iterator[str]:
    """Yield the calls and tokens that forks share and pay, one line per parent."""
    for parent in parents:
        calls = write_count(sum(parent.calls.values()), "call", "calls")
        tokens = write_count(parent.shared_tokens, "sampled token", "sampled tokens")
        share, make = ("shares", "makes") if forks == 1 else ("share", "make")
        yield (
            f"{parent.identity}: {write_count(forks, 'fork', 'forks')} after call {parent.turn} {share} {calls} "
            f"({tokens}) and {make} about {forks * parent.later_calls:,} "
            f"({forks * parent.later_tokens:,})"
        )
