"""Invariants of every run, under all faults. Each observes the stream of events and reports violations.

They do not depend on the gym's implementation: the ground truth comes from the environment, the network and the files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from nemo_gym.cli.command import ExitCode
from nemo_gym.engines.record.tape import MISMATCH
from nemo_gym.rows.identity import RolloutId, identity_at
from nemo_gym.rows.keys import (
    ATTEMPT_INDEX_KEY,
    FAILURE_KEY,
    REPLAY_KEY,
    ROLLOUT_INDEX_KEY,
    TASK_INDEX_KEY,
    TERMINAL_KEY,
)
from simulation.environment import right_reward
from simulation.events import AttemptId, Ended, Event, Kind, Rest, ToolRun, Verdict
from simulation.faults import (
    AGENT,
    ENVIRONMENT,
    SHORT_OUTAGE_S,
    TOOL,
    CallFault,
    FaultKind,
    is_tolerated,
    seconds_lost_by,
)
from simulation.scenario import Scenario

RUN_PLACE = f"{AGENT} /run"
_WITHOUT_EFFECT_ON_TOOLS = frozenset({FaultKind.SLOW, FaultKind.REFUSED})
_TOLERATED_FAULTS = 3
"""The number of faults that a call tolerates within its budget of attempts."""
_CLOSED_DESPITE = frozenset(
    {
        FaultKind.REFUSED,
        FaultKind.RESET_BEFORE,
        FaultKind.RESET_DURING,
        FaultKind.RESET_AFTER,
        FaultKind.HTTP_429,
        FaultKind.HTTP_502,
        FaultKind.HTTP_503,
        FaultKind.HTTP_504,
        FaultKind.LATE_504,
        FaultKind.SILENT_BEFORE,
        FaultKind.SILENT_AFTER,
    }
)
"""Faults of a closing call after which it is sent again."""
_TAKES_S = 25.0
"""Maximum seconds of an attempt without faults."""
_NOTICED_AGAIN_WITHIN_S = 10.0
"""Seconds after a restart within which callers notice the server again."""


def identity_of_line(line: bytes) -> RolloutId:
    identity = identity_at(line)
    assert identity is not None, line[:100]
    return identity


class NothingTwice:
    """A rollout has one row. An attempt and a tool call are executed once."""

    name = "nothing twice"

    def __init__(self) -> None:
        self._tools: set[tuple[str, int]] = set()
        self._attempts: set[AttemptId] = set()

    def observe(self, event: Event) -> str | None:
        match event.kind, event.detail:
            case Kind.TOOL, ToolRun(session, step, _):
                if (session, step) in self._tools:
                    return f"the tool call of step {step} was executed twice ({event.attempt})"
                self._tools.add((session, step))
            case Kind.BEGUN, _ if event.place == RUN_PLACE and event.attempt is not None:
                if event.attempt in self._attempts:
                    return f"the agent was asked twice for {event.attempt}"
                self._attempts.add(event.attempt)
            case Kind.ENDED, Ended(rows=rows):
                counts = Counter(map(identity_of_line, rows))
                for identity, count in counts.items():
                    if count > 1:
                        return f"{identity} has {count} rows"
        return None


class NothingLost:
    """Written rows stay, and a run that ends by itself has a row or a failure for every planned rollout."""

    name = "nothing lost"

    def __init__(self, scenario: Scenario) -> None:
        self._planned = {
            RolloutId(task, repeat) for task in range(scenario.tasks) for repeat in range(scenario.repeats)
        }
        self._kept: tuple[bytes, ...] = ()

    def observe(self, event: Event) -> str | None:
        if event.kind is not Kind.ENDED:
            return None
        ended: Ended = event.detail
        if ended.rows[: len(self._kept)] != self._kept:
            return "rows that had been written are no longer in the file"
        self._kept = ended.rows
        if ended.how in ("complete", "partial"):
            failed = {identity_of_line(line) for line in ended.failures if orjson.loads(line)[TERMINAL_KEY]}
            lost = self._planned - failed - set(map(identity_of_line, ended.rows))
            if lost:
                return f"the run ended as {ended.how}, and {min(lost)} has neither a row nor a failure"
        if ended.is_last and (ended.how, len(ended.rows)) != self._expect(ended):
            return f"all faults were repaired, but the run ended as {ended.how} {ended.error}".rstrip()
        return None

    def _expect(self, ended: Ended) -> tuple[str, int]:
        """Return how the last start ends, and its rows. A replay that could not be repeated needs another attempt."""
        failures = map(orjson.loads, ended.failures)
        strayed = sum(row[TERMINAL_KEY] and row[FAILURE_KEY]["code"] == MISMATCH for row in failures)
        return "partial" if strayed else "complete", len(self._planned) - strayed


class CountedRowsAreWritten:
    """Every row and failure that the run counts is in its file at that moment, so it survives a crash."""

    name = "counted rows are written"

    def __init__(
        self, counted: Callable[[], tuple[int, int]], written: Callable[[], tuple[int, int]]
    ) -> None:
        """Both return the numbers of rows and of finally failed rollouts."""
        self._counted = counted
        self._written = written

    def observe(self, event: Event) -> str | None:
        (rows, failures), (rows_there, failures_there) = self._counted(), self._written()
        if rows > rows_there:
            return f"the run counts {rows} rows, and {rows_there} are in the file"
        if failures > failures_there:
            return f"the run counts {failures} failures, and {failures_there} are in the file"
        return None


class CountsAgree:
    """The summary and the exit code agree with the files."""

    name = "counts agree"

    def __init__(self, scenario: Scenario) -> None:
        self._planned = scenario.planned
        self._may_requeue = bool(scenario.requests)

    def observe(self, event: Event) -> str | None:
        if event.kind is not Kind.ENDED or not event.detail.counts:
            return None
        ended: Ended = event.detail
        counts = dict(ended.counts)
        rows = counts["finished_before"] + counts["completed"] + counts["truncated"]
        if rows != len(ended.rows):
            return f"the summary counts {rows} rows, the file has {len(ended.rows)}"
        failed = sum(orjson.loads(line)[TERMINAL_KEY] for line in ended.failures)
        if counts["failed"] > failed or (counts["failed"] < failed and not self._may_requeue):
            return f"the summary counts {counts['failed']} failures, the file has {failed}"
        is_whole = len(ended.rows) == self._planned
        if is_whole != (ended.exit_code == ExitCode.COMPLETE):
            return f"the exit code is {ended.exit_code}, with {len(ended.rows)} rows of {self._planned}"
        return self._mean_differs(ended) if is_whole else None

    def _mean_differs(self, ended: Ended) -> str | None:
        if ended.mean_reward is None:
            return None
        mean = sum(orjson.loads(line)["reward"] for line in ended.rows) / self._planned
        if math.isclose(ended.mean_reward, mean, abs_tol=1e-9):
            return None
        return f"the summary says that the mean reward is {ended.mean_reward}; that of the file is {mean}"


class AttemptsAreMade:
    """A failed rollout is retried if a retry is useful and allowed, and only then."""

    name = "attempts are made"

    def __init__(self, scenario: Scenario) -> None:
        self._most = scenario.max_attempts

    def observe(self, event: Event) -> str | None:
        if event.kind is Kind.SENT and event.place == RUN_PLACE and event.attempt is not None:
            if event.attempt.attempt >= self._most:
                return f"{event.attempt} is more than the {self._most} allowed"
        elif event.kind is Kind.ENDED:
            for line in event.detail.failures:
                row = orjson.loads(line)
                failure, number = row[FAILURE_KEY], row[ATTEMPT_INDEX_KEY]
                of_use = failure["retryable"] and failure["type"] != "deadline"
                if row[TERMINAL_KEY] and of_use and number + 1 < self._most:
                    return (
                        f"{identity_of_line(line)} was given up after attempt {number}: {failure['message']}"
                    )
        return None


class FailuresHaveCauses:
    """An attempt fails only because of a fault that it met and that the gym need not tolerate."""

    name = "failures have causes"

    def __init__(self, scenario: Scenario) -> None:
        self._limit_s = scenario.rollout_timeout_s
        self._faults_met: dict[AttemptId, list[str]] = {}
        self._lost_s: dict[AttemptId, float] = {}
        self._severe: set[AttemptId] = set()
        self._told_otherwise: set[tuple[int, int]] = set()
        """Rollouts in which a tool's answer was changed, so that a replay does not repeat it."""
        self._in_flight: set[AttemptId] = set()
        self._sent: set[AttemptId] = set()
        self._crashes: list[tuple[str, float]] = []
        """Servers, and the times at which all callers can reach them again."""

    def observe(self, event: Event) -> str | None:
        match event.kind:
            case Kind.SENT if event.place == RUN_PLACE and event.attempt is not None:
                self._in_flight.add(event.attempt)
                self._sent.add(event.attempt)
                for server, back_at in self._crashes:
                    self._record_absence(event.attempt, server, back_at - event.at)
            case Kind.ANSWERED | Kind.BROKEN | Kind.LEFT if event.place == RUN_PLACE:
                self._in_flight -= {event.attempt}
            case Kind.FAULT if event.attempt is not None:
                fault: CallFault = event.detail
                self._record(event.attempt, str(fault), seconds_lost_by(fault))
                if not is_tolerated(fault):
                    self._severe.add(event.attempt)
                if fault.place == TOOL:
                    self._told_otherwise.add(event.attempt[1:3])
            case Kind.CRASHED:
                away_s = event.detail + _NOTICED_AGAIN_WITHIN_S
                self._crashes.append((event.place, event.at + away_s))
                for attempt in self._in_flight:
                    self._record_absence(attempt, event.place, away_s)
            case Kind.ENDED:
                for line in event.detail.failures:
                    message = self._without_cause(orjson.loads(line), event.detail)
                    if message is not None:
                        return message
        return None

    def _record(self, attempt: AttemptId, kind: str, lost_s: float) -> None:
        self._faults_met.setdefault(attempt, []).append(kind)
        self._lost_s[attempt] = self._lost_s.get(attempt, 0.0) + lost_s

    def _record_absence(self, attempt: AttemptId, server: str, away_s: float) -> None:
        if away_s > 0:
            self._record(attempt, f"{server} crashed", away_s)
            if server in (AGENT, ENVIRONMENT) or away_s > SHORT_OUTAGE_S + _NOTICED_AGAIN_WITHIN_S:
                self._severe.add(attempt)

    def _without_cause(self, row: Mapping[str, Any], ended: Ended) -> str | None:
        attempt = attempt_of(row, ended.start)
        harms = self._faults_met.get(attempt, [])
        failure = row[FAILURE_KEY]
        may_be_late = _TAKES_S + self._lost_s.get(attempt, 0.0) > self._limit_s
        is_late = failure["type"] == "deadline"
        if failure["code"] == MISMATCH and attempt[1:3] in self._told_otherwise:
            return None
        if self._crashes and attempt not in self._sent:
            return None  # it waited in vain for an agent that was away
        if attempt in self._severe or (may_be_late if is_late else len(harms) > _TOLERATED_FAULTS):
            return None
        met = f"met only: {'; '.join(harms)}" if harms else "met no fault"
        return f"{attempt} failed ({failure['type']}:{failure['code']}: {failure['message']}), and {met}"


class RewardsAreTrue:
    """A row belongs to its task, its reward is the verifier's for this attempt, and a failure has no reward."""

    name = "rewards are true"

    def __init__(self, tasks: Sequence[Mapping[str, Any]]) -> None:
        """`tasks`: the rows of the dataset."""
        self._tasks = tasks
        self._verdicts: dict[AttemptId, set[Verdict]] = {}
        self._disturbed: set[AttemptId] = set()
        self._overflown: set[tuple[int, int]] = set()
        """Rollouts with a call that the engine refused for its length, as it does again in a replay."""
        self._seen = 0

    def observe(self, event: Event) -> str | None:
        if event.kind is Kind.SCORED and event.attempt is not None:
            self._verdicts.setdefault(event.attempt, set()).add(event.detail)
        elif event.kind is Kind.FAULT and event.attempt is not None:
            if _may_change_the_reward(event.detail):
                self._disturbed.add(event.attempt)
            if event.detail.kind is FaultKind.OVERFLOW:
                self._overflown.add(event.attempt[1:3])
        elif event.kind is Kind.ENDED:
            ended: Ended = event.detail
            new, self._seen = ended.rows[self._seen :], len(ended.rows)
            problems = (self._problem(orjson.loads(line), ended.start) for line in new)
            rewarded = (
                f"the failure of {identity_of_line(line)} has a reward"
                for line in ended.failures
                if "reward" in orjson.loads(line)
            )
            return next((problem for problem in (*problems, *rewarded) if problem), None)
        return None

    def _problem(self, row: Mapping[str, Any], start: int) -> str | None:
        attempt = attempt_of(row, start)
        verdict = Verdict(row.get("session", "no session"), row["reward"])
        verdicts = self._verdicts.get(attempt, set())
        if verdict not in verdicts:
            given = ", ".join(str(one.reward) for one in verdicts) or "none"
            return f"{attempt} has the reward {verdict.reward}; the verifier gave it {given}"
        task = self._tasks[attempt.task]
        if any(row.get(key) != task[key] for key in ("agent_ref", "responses_create_params", "total")):
            return f"the row of {attempt} is another task's"
        right = right_reward(task)
        is_replayed = REPLAY_KEY in row and attempt[1:3] in self._overflown
        if attempt not in self._disturbed and not is_replayed and verdict.reward != right:
            return f"{attempt} did all that was asked and got {verdict.reward} instead of {right}"
        return None


def _may_change_the_reward(fault: CallFault) -> bool:
    """Return whether a fault may change the reward without failing the attempt."""
    is_tool = fault.place == TOOL and fault.kind not in _WITHOUT_EFFECT_ON_TOOLS
    return is_tool or fault.kind is FaultKind.OVERFLOW


class SessionsAreClosed:
    """The agent closes every session before its attempt is over, and no session is left at the end.

    A session is not closed while its attempt acts, and few faults of the closing calls do not leave it open.
    """

    name = "sessions are closed"

    def __init__(self) -> None:
        self._opened: set[AttemptId] = set()
        self._closing: set[AttemptId] = set()
        self._acting: set[AttemptId] = set()
        self._owners: dict[str, AttemptId] = {}
        """Open session → its attempt."""
        self._close_faults: Counter[AttemptId] = Counter()

    def observe(self, event: Event) -> str | None:
        return self._closed_in_time(event) or self._closed_at_all(event)

    def _closed_in_time(self, event: Event) -> str | None:
        """Check that a session is closed by its agent, and not before."""
        match event.kind, event.place:
            case Kind.BEGUN, "agent /run" if event.attempt is not None:
                self._acting.add(event.attempt)
            case Kind.OPENED, _ if event.attempt is not None:
                self._owners[event.detail] = event.attempt
            case Kind.CRASHED, _:
                self._owners.clear()  # the sessions of the environment are lost, or its agents are
            case Kind.FAULT, "environment /close_session" if event.attempt is not None:
                severe = event.detail.kind not in _CLOSED_DESPITE
                self._close_faults[event.attempt] += _TOLERATED_FAULTS if severe else 1
            case Kind.CLOSED, _:
                owner = self._owners.pop(event.detail, None)
                if owner in self._acting - self._closing:
                    return f"a session was closed while its attempt was acting ({owner})"
            case Kind.DONE, "agent /run" if event.attempt is not None:
                self._acting.discard(event.attempt)
                has_few_faults = self._close_faults[event.attempt] < _TOLERATED_FAULTS
                is_left = event.detail is not None and event.attempt in self._owners.values()
                if is_left and has_few_faults:
                    return f"the attempt is over and its session is still open ({event.attempt})"
        return None

    def _closed_at_all(self, event: Event) -> str | None:
        attempt = event.attempt
        match event.kind, event.place:
            case Kind.OPENED, _ if attempt is not None:
                self._opened.add(attempt)
            case Kind.SENT, "environment /close_session" if attempt is not None:
                self._closing.add(attempt)
            case Kind.DONE, "agent /run" if (
                attempt in self._opened - self._closing and event.detail is not None
            ):
                return f"the attempt is over and its session was not closed ({attempt})"
            case Kind.TOOL, _ if not event.detail.is_known:
                return f"a tool was executed in a session whose state is gone ({attempt})"
            case Kind.OVER, _:
                rest: Rest = event.detail
                if rest.sessions_open or rest.states_held:
                    return f"{rest.sessions_open} sessions, and the state of {rest.states_held}, are kept for ever"
        return None


class QueuesAreBounded:
    """The number of rollouts in flight stays within its limit, and no call or handler is left at the end."""

    name = "queues are bounded"

    def __init__(self, scenario: Scenario) -> None:
        set_to = (request.body.get("num_samples_in_parallel", 0) for request in scenario.requests)
        self._most = max(scenario.in_parallel, *set_to, 0)
        self._in_flight: set[int] = set()

    def observe(self, event: Event) -> str | None:
        if event.place == RUN_PLACE:
            if event.kind is Kind.SENT:
                self._in_flight.add(event.call)
            elif event.kind in (Kind.ANSWERED, Kind.BROKEN, Kind.LEFT):
                self._in_flight.discard(event.call)
            if len(self._in_flight) > self._most:
                return f"{len(self._in_flight)} rollouts are in flight, {self._most} are allowed"
        elif event.kind is Kind.OVER:
            rest: Rest = event.detail
            if rest.calls_in_flight or rest.tasks_running:
                return f"{rest.calls_in_flight} calls and {rest.tasks_running} handlers never end"
        return None


class NoSurprises:
    """No handler raises an unexpected exception, and nothing is logged as an error."""

    name = "no surprises"

    def observe(self, event: Event) -> str | None:
        if event.kind is Kind.SURPRISE:
            return str(event.detail)
        if event.kind is Kind.ENDED:
            for line in event.detail.failures:
                failure = orjson.loads(line)[FAILURE_KEY]
                if failure["code"] == "unhandled_exception" or failure["code"].endswith(
                    ("Error", "Exception")
                ):
                    return f"{identity_of_line(line)} failed because of a bug: {failure['message']}"
        return None


def attempt_of(row: Mapping[str, Any], start: int) -> AttemptId:
    return AttemptId(start, row[TASK_INDEX_KEY], row[ROLLOUT_INDEX_KEY], row[ATTEMPT_INDEX_KEY])
