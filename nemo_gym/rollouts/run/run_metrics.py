"""The metrics of a run by agent, accumulated while it runs; only numbers are kept in memory.

An agent can add the metrics of its environment, if that has any of its own. The request for them contains all rows,
without what was asked and answered, so only runs of moderate size make it. Larger runs have the standard metrics only.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from nemo_gym.failures import ConfigError, GymError, InputError, Outcome
from nemo_gym.json_objects import dump_json, measure_form, parse_json
from nemo_gym.metrics import (
    AgentMetrics,
    AgentsAverage,
    AggregateResult,
    CallSeconds,
    FailedCalls,
    Planned,
    RolloutRecord,
    ToolTally,
    VerdictTally,
    average_agents,
    is_error_of_mean,
    read_measurements,
    read_record,
)
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.journal import Journal
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import Failed, Scored
from nemo_gym.rollouts.run.stopping import Stop, StopReason, wait_for_first
from nemo_gym.rows.compose import name_agent, select_aggregated
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import FinishedRollouts
from nemo_gym.rows.keys import REWARD_KEY
from nemo_gym.rows.masking import MaskCounters
from nemo_gym.rows.parts import list_items, read_agent_or_unknown
from nemo_gym.rows.verdict import is_scored, read_failure_class
from nemo_gym.tokens.light_parsing import parse_lightly
from nemo_gym.transport import Caller, Deadline

_PLAN_METRICS = ("count/", "coverage/", "short_tasks@")
"""Metrics that depend on the plan, which environments do not have."""
_ROUTE = "/aggregate_metrics"
_DESCRIPTION_S = 30.0
_ENVIRONMENT_METRICS_S = 300.0
_MAX_REQUEST_BYTES = 256 << 20
_ENTRIES_PER_PIECE = 100


class RunMetrics:
    """Accumulates the results of each agent's rollouts."""

    def __init__(
        self, zero_classes: Collection[str] = (), clusters: Mapping[int, int] = MappingProxyType({})
    ) -> None:
        """`zero_classes`: classes of failures that count as reward 0. `clusters`: as for `AgentMetrics`."""
        self._zero_classes, self._clusters = zero_classes, clusters
        self._agents: defaultdict[str, AgentMetrics] = defaultdict(partial(AgentMetrics, clusters=clusters))
        self._seen = FinishedRollouts()
        self.imputed: dict[str, list[bytes]] = {}
        """By agent, the rows with reward 0 of rollouts that have none. Only metrics use them."""
        self.masks = MaskCounters()
        """Counts of model calls, and of those without tokens to train on."""
        self._tools: defaultdict[str, ToolTally] = defaultdict(ToolTally)
        self._seconds: defaultdict[str, CallSeconds] = defaultdict(CallSeconds)
        self._verdicts: defaultdict[str, VerdictTally] = defaultdict(VerdictTally)
        self.notes: list[str] = []
        """Notes for the summary."""

    def note(self, planned: PlannedAttempt, result: Scored | Failed) -> None:
        """Add a settled rollout."""
        self._seen.add(planned.identity)
        of_attempt = (*planned.identity, planned.attempt_index)
        if isinstance(result, Scored):
            self.masks.add(result.row)
            self._tools[planned.agent].add(result.row)
            self._seconds[planned.agent].add(result.row)
            self._verdicts[planned.agent].add(result.row)
            measured = read_measurements(result.row)
            record = RolloutRecord(*of_attempt, result.outcome.value, measurements=measured)
            self._agents[planned.agent].add_record(record)
            return
        record = RolloutRecord(*of_attempt, Outcome.FAILED.value, result.failure_class, is_scored=False)
        if result.failure_class in self._zero_classes:
            self._impute(planned.agent, planned.row, record)
        else:
            self._agents[planned.agent].add_record(record)

    def note_missing(self, plan: Iterable[PlannedAttempt]) -> None:
        """Count the rollouts of `plan` that are not settled as reward 0."""
        for planned in plan:
            if planned.identity not in self._seen:
                self._impute(planned.agent, planned.row, RolloutRecord(*planned.identity, outcome="missing"))

    def _impute(self, agent: str, line: bytes, record: RolloutRecord) -> None:
        """Add a record as reward 0. `line` is the row that environments see, without its reward."""
        row = line.removesuffix(b"}") + b',"%b":0.0}' % REWARD_KEY.encode()
        self.imputed.setdefault(agent, []).append(row)
        self._agents[agent].add_record(replace(record, measurements={REWARD_KEY: 0.0}, is_scored=True))

    def note_rows(self, path: Path, count: int, may_continue: Callable[[], bool] = lambda: True) -> None:
        """Add the first `count` rows of `path` while `may_continue()`."""
        for line in islice(read_lines(path), count):
            if not may_continue():
                return
            self.note_row(orjson.loads(line.content))

    def note_row(self, row: AnyRow, line: bytes = b"", *, is_final: bool = False) -> None:
        """Add a stored row, scored or failed. `is_final`: it is a failure, and its rollout has no scored row."""
        self.masks.add(row)
        if is_final and read_failure_class(row) in self._zero_classes:
            self._impute(read_agent_or_unknown(row), line, read_record(row))
            return
        agent = read_agent_or_unknown(row)
        self._agents[agent].add(row)
        if is_scored(row):
            self._tools[agent].add(row)
            self._seconds[agent].add(row)
            self._verdicts[agent].add(row)

    def describe_verdicts(self) -> Iterator[str]:
        """Yield notes on agents whose rewards are all 0, on answers that broke their verifier, and on empty ones."""
        for agent, verdicts in sorted(self._verdicts.items()):
            told = verdicts.describe_faults(), verdicts.describe(), verdicts.describe_best()
            for described in filter(None, told):
                yield f"`{agent}`: {described}"
        if empty := sum(verdicts.empty for verdicts in self._verdicts.values()):
            count = sum(verdicts.count for verdicts in self._verdicts.values())
            yield f"{empty:,} of {count:,} rollouts completed with an empty answer"

    def rank_failed_tool_calls(self) -> list[FailedCalls]:
        """Return the tool calls that failed by the fault of an environment, the most frequent cause first."""
        whole = ToolTally()
        for tally in self._tools.values():
            whole.merge(tally)
        return whole.rank_failed()

    def results(self, planned: Mapping[str, Planned]) -> dict[str, AggregateResult]:
        """Return the metrics by agent, including agents without a settled rollout."""
        return {agent: self._result(agent, planned.get(agent)) for agent in sorted({*planned, *self._agents})}

    def average(self, planned: Mapping[str, Planned]) -> AgentsAverage | None:
        """Return the mean of the agents' mean rewards; None below two agents."""
        agents = {*planned, *self._agents}
        return average_agents([self._agents[agent] for agent in sorted(agents)]) if len(agents) > 1 else None

    def _result(self, agent: str, planned: Planned | None) -> AggregateResult:
        try:
            result = self._agents[agent].result(planned)
        except InputError as error:
            if planned is None:
                raise
            self.notes.append(
                f"the coverage of `{agent}` is relative to the rollouts seen, not to the plan: {error.failure.message}"
            )
            result = self._agents[agent].result()
        if agent in self.imputed:
            result["agent_metrics"]["count/imputed"] = len(self.imputed[agent])
        if agent in self._tools:
            result["agent_metrics"] |= self._tools[agent].metrics()
        if agent in self._seconds:
            result["agent_metrics"] |= self._seconds[agent].metrics()
        return result


class EnvironmentMetrics:
    """Requests the metrics of environments from their agents."""

    def __init__(self, caller: Caller, *, max_rows: int, has_equal_tasks: bool = False) -> None:
        """`max_rows` bounds the request; with 0 rows there is none. `has_equal_tasks`: some tasks repeat another."""
        self._caller = caller
        self._max_rows = max_rows
        self._has_equal_tasks = has_equal_tasks
        self.notes: list[str] = []
        """The reasons why environment metrics are missing."""

    async def extend(
        self,
        results: dict[str, AggregateResult],
        rows: Path,
        imputed: Mapping[str, Sequence[bytes]] | None = None,
    ) -> dict[str, AggregateResult]:
        """Return `results` with the metrics of each environment added. `imputed`: further rows by agent."""
        extended = dict(results)
        for agent, result in results.items():
            scored = result["agent_metrics"].get("count/scored", 0)
            if not scored or not self._max_rows or not await self._has_own(agent):
                continue
            body = None
            if scored <= self._max_rows:
                only = agent if len(results) > 1 else None
                further = (imputed or {}).get(agent, ())
                body = await asyncio.to_thread(_build_request, rows, only, _MAX_REQUEST_BYTES, further)
            if body is None:
                self.notes.append(
                    f"the environment metrics of `{agent}` are missing: the run is too large to send its rows"
                )
                continue
            own = await self._ask(agent, body)
            if own is not None:
                extended[agent] = combine(result, _drop_errors(own) if self._has_equal_tasks else own)
        return extended

    async def _has_own(self, agent: str) -> bool:
        """Return False if the agent says that its metrics are the standard ones, which `results` has already."""
        try:
            reply = await self._caller.get(agent, _ROUTE, _DESCRIPTION_S)
            answer = reply.json() if reply.ok else None
        except (GymError, orjson.JSONDecodeError):
            return True  # the request for the metrics says why they are missing
        return not (isinstance(answer, Mapping) and answer.get("has_own") is False)

    async def _ask(self, agent: str, body: bytes) -> Mapping[str, Any] | None:
        try:
            reply = await self._caller.call(
                agent,
                "POST",
                _ROUTE,
                body=body,
                deadline=Deadline.after(_ENVIRONMENT_METRICS_S),
                repeatable=True,
            )
            answer = reply.json() if reply.ok else None
        except (GymError, orjson.JSONDecodeError) as error:
            self.notes.append(f"the environment metrics of `{agent}` are missing: {error}")
            return None
        if isinstance(answer, Mapping):
            return answer
        if reply.status not in (404, 405, 501):
            self.notes.append(f"the environment metrics of `{agent}` are missing: HTTP {reply.status}")
        return None


def _build_request(rows: Path, agent: str | None, most: int, further: Iterable[bytes] = ()) -> bytes | None:
    """Return the body of `POST /aggregate_metrics` with the rows of `agent`, or all rows for None, and `further` ones.

    Returns None if the body would have more than `most` bytes.
    """
    body = bytearray(b'{"verify_responses":[')
    stored = (line.content for line in read_lines(rows))
    for line, is_own in chain(zip(further, repeat(True)), zip(stored, repeat(agent is None))):
        row: AnyRow = parse_lightly(line, list_items)
        if is_own or read_agent_or_unknown(row) == agent:
            body += _write_verdict(row, line) + b","
        if len(body) > most:
            return None
    return bytes(body.removesuffix(b",")) + b"]}"


def _write_verdict(row: AnyRow, line: bytes) -> bytes:
    """Return the row in `line` as environments aggregate it, here and in the gym of the ecosystem."""
    verdict = select_aggregated(row)
    return dump_json(select_aggregated(parse_json(line)) if measure_form(verdict).may_be_rounded else verdict)


def _drop_errors(own: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return environment metrics without their standard errors and intervals, which take equal tasks for different."""
    figures = ((part, own.get(part) or {}) for part in ("agent_metrics", "key_metrics"))
    return {
        **own,
        **{
            part: {key: value for key, value in of.items() if not is_error_of_mean(key)}
            for part, of in figures
        },
    }


def combine(standard: AggregateResult, own: Mapping[str, Any]) -> AggregateResult:
    """Merge environment metrics into the standard ones; metrics that depend on the plan stay standard."""
    ours = standard["agent_metrics"]
    of_plan = {key: value for key, value in ours.items() if key.startswith(_PLAN_METRICS)}
    partial = {key: value for key, value in standard["key_metrics"].items() if key.startswith(_PLAN_METRICS)}
    groups = own.get("group_level_metrics")
    if not groups or not isinstance(groups, list):
        groups = standard["group_level_metrics"]
    return AggregateResult(
        group_level_metrics=groups,
        agent_metrics=ours | (own.get("agent_metrics") or {}) | of_plan,
        key_metrics=(own.get("key_metrics") or standard["key_metrics"]) | partial,
        repeat_level_metrics=own.get("repeat_level_metrics") or standard["repeat_level_metrics"],
    )


async def write_metrics(
    metrics: RunMetrics,
    journal: Journal,
    planned: Mapping[str, Planned],
    environment: EnvironmentMetrics,
    stop: Stop,
) -> tuple[dict[str, AggregateResult], list[str]]:
    """Compute and write the metrics of all rows of a run; return them with notes.

    `metrics` has the rollouts of this start; the rows of earlier starts are read from the file. A run whose output was
    changed by another program is stopped, without metrics.
    """
    files = journal.files
    try:
        journal.refuse_changes()
    except ConfigError as error:
        stop.drain(StopReason("broken", error.failure.message, error.failure.remedy))
        return {}, ["no metrics were computed: the output has lost rows"]
    await asyncio.to_thread(
        metrics.note_rows, files.rows, len(journal.finished), lambda: not stop.cancelling.is_set()
    )
    if stop.cancelling.is_set():  # perhaps within the file
        return {}, ["no metrics were computed: the run was interrupted twice"]
    results = await asyncio.to_thread(metrics.results, planned)
    if stop.reason is None:
        asking = environment.extend(results, files.rows, metrics.imputed)
        results = await _unless_interrupted(asking, results, environment, stop)
    notes = [*metrics.describe_verdicts(), *metrics.notes, *environment.notes]
    try:
        await asyncio.to_thread(write_atomically, files.aggregate_metrics, write_document(results))
    except ConfigError as error:
        notes.append(f"the metrics were not written: {error.failure.message}")
    return results, notes


async def _unless_interrupted(
    extend: Coroutine[Any, Any, dict[str, AggregateResult]],
    results: dict[str, AggregateResult],
    environment: EnvironmentMetrics,
    stop: Stop,
) -> dict[str, AggregateResult]:
    """Return the result of `extend`, or `results` if the run is interrupted first."""
    asking = asyncio.create_task(extend)
    try:
        await wait_for_first(asking, stop.draining)
        if asking.done():
            return asking.result()
    finally:
        asking.cancel()
    environment.notes.append("the environment metrics are missing: the run was interrupted")
    return results


def write_document(results: Mapping[str, AggregateResult]) -> Iterator[bytes]:
    """Yield the text of `<stem>_aggregate_metrics.json` in pieces, one line per task entry."""
    yield b"["
    separator = b"\n"
    for agent, result in results.items():
        head = {
            **name_agent(agent),
            "agent_metrics": result["agent_metrics"],
            "key_metrics": result["key_metrics"],
            "repeat_level_metrics": result["repeat_level_metrics"],
        }
        yield separator + orjson.dumps(head, option=orjson.OPT_INDENT_2).removesuffix(b"\n}")
        yield b',\n"group_level_metrics": ['
        yield from _write_lines(result["group_level_metrics"])
        yield b"\n]}"
        separator = b",\n"
    yield b"\n]\n"


def _write_lines(entries: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    encoded, separator = map(orjson.dumps, entries), b"\n"
    while piece := b",\n".join(islice(encoded, _ENTRIES_PER_PIECE)):
        yield separator + piece
        separator = b",\n"
