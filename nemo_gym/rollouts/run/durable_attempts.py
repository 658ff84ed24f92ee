"""Attempts that continue where an earlier one was interrupted, and the records that make it possible.

Which failure is continued: one of the machinery (a lost session or node, a server or an engine that is gone, a judge
that failed after the last turn), and an attempt whose collector was killed. A failure of the task itself, a used budget
and a refused request are not. The same failure at the same call twice, or a mismatch, is followed by an attempt that
begins afresh.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

from nemo_gym import clock
from nemo_gym.engines.attempts.record import AttemptRecord, read_attempt
from nemo_gym.engines.attempts.replay import MISSING, STALE, build_mismatch_failure
from nemo_gym.engines.record.tape import MISMATCH
from nemo_gym.failures import Boundary, ConfigError, Failure
from nemo_gym.json_objects import member
from nemo_gym.rollouts.output.attempt_records import AttemptRecords
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.agent_attempter import AgentAttempter
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult, Failed, Scored
from nemo_gym.rollouts.run.options import DurabilityOptions
from nemo_gym.rollouts.run.required_servers import (
    MODEL_TYPE,
    find_required_servers,
    is_server,
    runs_rows,
)
from nemo_gym.rows.compose import add_replay, append_replay
from nemo_gym.rows.identity import RolloutId
from nemo_gym.rows.verdict import describe_failure, is_judge_failure
from nemo_gym.serving.durable.names import AttemptName
from nemo_gym.serving.durable.plans import ReplayMode, ReplayPlan
from nemo_gym.serving.durable.tool_lines import describe_given
from nemo_gym.tables import write_count
from nemo_gym.transport import Caller, Deadline, RetryBudget, read_reply_failure
from nemo_gym.transport.control import DURABLE_RUNS
from nemo_gym.transport.directory import server_block

_ANSWERS_WITHIN_S, _LAST_WITHIN_S = 30.0, 2.0
_LOST = (MISMATCH, STALE, MISSING)
"""The failures after which an attempt begins afresh."""


class _Ended(NamedTuple):
    """How an attempt at a rollout has ended, and with how many answered calls."""

    failure: Failure
    calls: int


@dataclass(slots=True)
class DurableAttempts:
    """The attempts of a durable run."""

    agents: AgentAttempter
    records: AttemptRecords
    options: DurabilityOptions
    caller: Caller
    recorders: Sequence[str]
    """The servers that record: all model servers, and tool servers that say so."""
    continued: int = 0
    """The attempts that went on where an earlier one had ended, to a row that says so."""
    unsafe: Mapping[str, str] = field(default_factory=dict)
    """By agent, the server because of which no attempt of it is replayed (`replay: unsafe`)."""
    strayed: list[str] = field(default_factory=list)
    """Why attempts could not go on where an earlier one had ended."""
    _ended: dict[RolloutId, _Ended] = field(default_factory=dict)

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        """Make an attempt, which continues the one before if that was interrupted."""
        source = None
        if task.agent not in self.unsafe and self.records.may_continue(task.identity):
            source = await asyncio.to_thread(self.records.find_longest, task.identity)
        name = self.records.name_next(task.identity)
        recorded = 0
        if source is not None:
            recorded = len((await asyncio.to_thread(read_attempt, source)).list_answered())
            plan = self.build_plan(source)
            await asyncio.to_thread(plan.write, self.records.folder / name.folder)
        began = clock.monotonic()
        result = await self.agents.attempt(task, str(name), continues=source is not None)
        if source is not None:
            seconds, folder = clock.monotonic() - began, self.records.folder / name.folder
            record = await asyncio.to_thread(read_attempt, folder)
            given = await asyncio.to_thread(describe_given, folder)
            result = self.check_replay(result, record, recorded, source.name, seconds, given)
        await self._note_end(task.identity, result, name)
        return result

    def build_plan(self, source: Path) -> ReplayPlan:
        """Return the plan of an attempt that continues another one."""
        options = self.options
        return ReplayPlan(
            mode=ReplayMode.CONTINUE,
            source=source,
            noise=[*options.replay_noise],
            strict=options.replay_strict,
            max_staleness=options.max_replay_staleness,
        )

    def check_replay(
        self,
        result: AttemptResult,
        record: AttemptRecord,
        recorded: int,
        source: str,
        seconds: float,
        given: Mapping[str, Any] = MappingProxyType({}),
    ) -> AttemptResult:
        """Return the result of an attempt that replays the `recorded` calls of the attempt `source`.

        `given` describes the tools whose recorded results it got. The result has an account of the replay, or is the
        failure of an attempt that did not repeat the other one.
        """
        failure = find_replay_failure(recorded, record, result, self.options)
        if failure is not None:
            if failure.code in _LOST:
                self.strayed.append(failure.message)
            return failure
        assert isinstance(result, AgentAnswer)
        self.continued += 1
        about = describe_replay(record, source, ReplayMode.CONTINUE, self.options, seconds)
        about |= given
        encoded = append_replay(result.encoded, about) if result.encoded is not None else None
        return AgentAnswer(add_replay(result.row, about), encoded)

    async def _note_end(self, identity: RolloutId, result: AttemptResult, name: AttemptName) -> None:
        """Decide whether the next attempt at the rollout may continue this one."""
        failure = _find_failure(result)
        if failure is None or not _is_continuable(failure):
            self.records.refuse_earlier(identity)
            self._ended.pop(identity, None)
            return
        record = await asyncio.to_thread(read_attempt, self.records.folder / name.folder)
        ended = _Ended(failure, len(record.list_answered()))
        before = self._ended.get(identity)
        if before is not None and (before.failure.code, before.calls) == (failure.code, ended.calls):
            self.records.refuse_earlier(identity)
        self._ended[identity] = ended

    def note_settled(self, planned: PlannedAttempt, result: Scored | Failed) -> None:
        """Delete the records of a rollout whose row is in its file, or that no resumed run could continue."""
        identity = planned.identity
        may_continue = self._ended.pop(identity, None) is not None
        kept = self.options.keep_attempts
        is_failed = isinstance(result, Failed)
        if not is_failed and kept != "all":
            self.records.release(identity)
        elif kept == "none" and not may_continue:
            self.records.delete(identity)
        elif is_failed and not may_continue:
            self.records.mark_ended(identity)

    async def tell_recorders(self) -> None:
        """Tell every process of the servers that record the run. Raises `ConfigError` if one cannot record it."""
        about = {"run": self.records.run, "durability": self.options.durability}
        folder = self.records.folder.resolve()
        for server in self.recorders:
            if self.records.earlier_run is not None:
                await self._post(server, {"run": self.records.earlier_run}, is_last=True)
            for written in await self._post(server, {**about, "folder": str(folder)}):
                try:
                    (folder / str(written)).unlink()
                except FileNotFoundError as error:
                    raise ConfigError(
                        f"`{server}` writes the records of attempts to another {folder}: no disk is shared",
                        code="records_not_shared",
                        remedy="Write the rows to a folder that all machines of the gym share, or +durability=off.",
                    ) from error

    async def end(self, *, is_complete: bool = True) -> list[str]:
        """Tell the recording servers that a complete run has ended. Return notes for the closing table.

        One that was stopped ends at once. The start that resumes it tells them.
        """
        for server in self.recorders if is_complete else ():
            await self._post(server, {"run": self.records.run}, is_last=True)
        kept = await asyncio.to_thread(self.records.end)
        return list(self._describe(kept.attempts, kept.bytes))

    def _describe(self, attempts: int, size: int) -> Iterator[str]:
        if self.records.changes:
            listed = "; ".join(map(str, self.records.changes[:3]))
            yield f"interrupted attempts of the earlier start began afresh, because the run has changed: {listed}"
        if self.unsafe:
            servers = ", ".join(f"`{name}`" for name in sorted(set(self.unsafe.values())))
            yield f"interrupted attempts begin afresh, because of replay: unsafe of {servers}"
        if self.continued:
            yield (
                f"{_count_attempts(self.continued)} went on where an earlier one was interrupted (`_ng_replay` in "
                "their rows)"
            )
        if self.strayed:
            yield (
                f"{_count_attempts(len(self.strayed))} could not go on where an earlier one was interrupted "
                f"(first: {self.strayed[0]})"
            )
        if self.records.damaged:
            yield (
                f"{write_count(len(self.records.damaged), 'record', 'records')} of interrupted attempts had damaged "
                f"lines, whose calls were made again (first: {min(self.records.damaged)}); "
                f"{write_count(len(self.records.lost), 'rollout', 'rollouts')} began afresh for want of a whole call"
            )
        if attempts:
            yield (
                f"attempt records: {_write_bytes(size)} kept of {_count_attempts(attempts)} in "
                f"{self.records.folder} (gym forget deletes them)"
            )

    async def _post(self, server: str, body: Mapping[str, Any], *, is_last: bool = False) -> list[str | None]:
        """Post to every process of a server, and return the names that they wrote."""
        urls = self.caller.directory.replicas(server)
        by_url = self.caller.narrow_to_urls(urls, RetryBudget(attempts=1) if is_last else None)
        within_s, dumped = _LAST_WITHIN_S if is_last else _ANSWERS_WITHIN_S, orjson.dumps(body)
        asking = (
            by_url.call(url, "POST", DURABLE_RUNS, body=dumped, deadline=Deadline.after(within_s))
            for url in urls
        )
        written: list[str | None] = []
        for reply in await asyncio.gather(*asking, return_exceptions=is_last):
            if isinstance(reply, BaseException):
                continue  # a server that is gone needs not be told
            if not reply.ok and not is_last:
                failure = read_reply_failure(reply)
                raise ConfigError(
                    f"`{server}` cannot record attempts: {failure.message if failure else f'HTTP {reply.status}'}",
                    code="not_durable",
                    remedy=(failure.remedy if failure else None) or "Run without +durability.",
                )
            written.append(orjson.loads(reply.body).get("written") if reply.ok else None)
        return written


async def begin_durable(
    agents: AgentAttempter,
    records: AttemptRecords,
    options: DurabilityOptions,
    caller: Caller,
    servers: Collection[str],
    config: Mapping[str, Any],
) -> DurableAttempts:
    """Return the attempts of a durable run, after its servers were told. Raises `ConfigError`."""
    recorders, unsafe = find_recorders(servers, config), find_unsafe(servers, config)
    records.has_calls_alone = all(is_server(config.get(name), MODEL_TYPE) for name in recorders)
    attempts = DurableAttempts(agents, records, options, caller, recorders, unsafe=unsafe)
    await attempts.tell_recorders()
    return attempts


def find_recorders(servers: Iterable[str], config: Mapping[str, Any]) -> list[str]:
    """Return the servers that record durable attempts: model servers, and those of recorded tools and snapshots."""

    def records(name: str) -> bool:
        replay = member(server_block(config.get(name) or {}) or {}, "replay")
        return is_server(config.get(name), MODEL_TYPE) or replay in ("recorded", "snapshot")

    return sorted(filter(records, servers))


def find_unsafe(servers: Iterable[str], config: Mapping[str, Any]) -> dict[str, str]:
    """Return the agents that use a server with `replay: unsafe`, each with that server."""
    found = {}
    for agent in servers:
        needed = find_required_servers([agent], config) if runs_rows(config.get(agent)) else {}
        unsafe = (name for name, each in needed.items() if member(server_block(each), "replay") == "unsafe")
        if (server := next(unsafe, None)) is not None:
            found[agent] = server
    return found


def count_replayed(record: AttemptRecord) -> int:
    """Return the number of calls that were answered from an earlier record."""
    return sum(call.replayed is not None for call in record.list_answered())


def describe_replay(
    record: AttemptRecord, source: str, mode: ReplayMode, options: DurabilityOptions, seconds: float
) -> dict[str, Any]:
    """Return what a row says of its replay."""
    replayed = count_replayed(record)
    noise: dict[str, int] = {}
    for call in record.calls:
        for name, count in call.noise.items():
            noise[name] = noise.get(name, 0) + count
    return {
        "source": source,
        "mode": mode.value,
        "calls_replayed": replayed,
        "calls_live": len(record.list_answered()) - replayed,
        "observations_compared": sum(call.compared for call in record.calls),
        "noise": noise,
        "instructions_changed": any(call.instructions_changed for call in record.calls),
        "strict": options.replay_strict,
        "seconds": round(seconds, 3),
    }


def find_replay_failure(
    recorded: int, record: AttemptRecord, result: AttemptResult, options: DurabilityOptions
) -> Failure | None:
    """Return the failure of an attempt that replays `recorded` calls; None if it has repeated them and has a row."""
    failure = _find_mismatch(recorded, record, result)
    if failure is None and isinstance(result, Failure):
        failure = result
    if failure is not None and failure.code in _LOST and options.on_mismatch == "fail":
        return replace(failure, retryable=False)
    return failure


def _find_mismatch(recorded: int, record: AttemptRecord, result: AttemptResult) -> Failure | None:
    """Return the failure of a replay of `recorded` calls that did not repeat them, even if its agent went on."""
    replayed = count_replayed(record)
    if record.mismatches:
        text = str(record.mismatches[0].get("text"))
    elif isinstance(result, AgentAnswer) and replayed < recorded:
        text = f"the replayed attempt ended after {replayed} of {recorded} recorded calls"
    else:
        return None
    return build_mismatch_failure(text).failure


def _find_failure(result: AttemptResult) -> Failure | None:
    """Return the failure of an attempt: its own, or that of a judge, whose answer is a row without a verdict."""
    if isinstance(result, Failure):
        return result
    return describe_failure(result.row) if is_judge_failure(result.row) else None


def _is_continuable(failure: Failure) -> bool:
    """Return whether a failure is one of the machinery, after which the attempt can go on."""
    is_ended = failure.boundary in (Boundary.DEADLINE, Boundary.CANCELLED, Boundary.CONFIG)
    return failure.retryable and not is_ended and failure.code not in _LOST


def _count_attempts(count: int) -> str:
    return write_count(count, "attempt", "attempts")


def _write_bytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} bytes"
