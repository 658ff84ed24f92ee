"""A rollout session: the groups of a book, attempted by a collector whose source is open.

Tasks come in while rollouts run. One reader takes groups out, and says which of them it has consumed. A delivered group
is kept until then, so that a reader whose connection was lost, or which was killed, gets it again with the same cursor.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import orjson

from nemo_gym import clock
from nemo_gym.failures import InputError
from nemo_gym.names import END_KEY
from nemo_gym.rollouts.control.clocks import Clocks
from nemo_gym.rollouts.control.run_control import RunControl
from nemo_gym.rollouts.control.verbs import ControlRequest, ControlVerb, Phase
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AttemptResult, Failed, Scored
from nemo_gym.rollouts.run.collector import Attempter, Collector
from nemo_gym.rollouts.run.control import build_drain, count_rollouts
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.options import MAX_COUNT, RunLimits
from nemo_gym.rollouts.run.sources import OpenSource
from nemo_gym.rollouts.run.stopping import Stop, StopReason, StopRules
from nemo_gym.rollouts.sessions.book import GroupBook
from nemo_gym.rollouts.sessions.curriculum import count_pools
from nemo_gym.rollouts.sessions.group_lines import build_member, write_group, write_sign
from nemo_gym.rollouts.sessions.groups import CancelReason, GroupPhase, TaskGroup
from nemo_gym.rollouts.sessions.options import SessionOptions
from nemo_gym.rollouts.sessions.reader import GroupReading
from nemo_gym.rollouts.sessions.tasks import SubmittedTask
from nemo_gym.rows.identity import RolloutId

log = logging.getLogger(__name__)

_RETRY_AFTER_S = 1.0
_STARTING_VERBS = (ControlVerb.PAUSE, ControlVerb.RESUME, ControlVerb.DRAIN)
_REQUEUE_REFUSAL = "the groups of a session are requeued by their keys: submit the key in a later round"


class RolloutSession:
    """An open session. `run` has to be awaited in a task of its own."""

    def __init__(
        self,
        name: str,
        options: SessionOptions,
        attempter: Attempter,
        *,
        book: GroupBook | None = None,
        clocks: Clocks | None = None,
        on_tuned: Callable[[RunLimits], None] = lambda limits: None,
    ) -> None:
        """`book`: that of a restored session. `clocks`: those of its servers, which stand still during a pause."""
        self.name = name
        self.options = options
        self.book = book or GroupBook(options, clock.wall_clock)
        self._clocks = clocks or Clocks(None)
        self._attempter = attempter
        self._source = OpenSource(self._draw, self.book.count_ready, lambda: bool(self.book.waiting))
        self._rows: dict[RolloutId, bytes] = {}
        """The rows of settled rollouts whose groups are not delivered."""
        self.lines: dict[int, bytes] = {}
        """The lines of delivered groups that are not consumed, by cursor."""
        self._bytes = 0
        self._began_with: dict[RolloutId, int] = {}
        """The version at the start of the last attempt in flight."""
        self.reading = GroupReading()
        self._stop = Stop()
        self._counters = RunCounters(planned=MAX_COUNT)
        self._collector = self._build_collector()
        self._collector.on_tuned = on_tuned
        self.control = self._build_control()
        self._is_silent = False
        self.is_over = False
        """True when nothing runs any more; what was not delivered can still be read."""

    def _build_collector(self) -> Collector:
        options = self.options
        return Collector(
            self,
            _NoOutput(),
            self._counters,
            limits=options.limits,
            rules=StopRules(0, identical_failures=options.stop_after_identical_failures),
            stop=self._stop,
            on_settled=self._settle,
        )

    def _build_control(self) -> RunControl:
        return RunControl(
            self.name,
            self._collector,
            drain=build_drain(self._stop),
            is_draining=lambda: self._stop.requested,
            count=self._count_rollouts,
            requeue_refusal=_REQUEUE_REFUSAL,
            on_phase=self._clocks.set_phase,
        )

    async def run(self) -> None:
        """Attempt the groups until the input has ended, or the session is stopped."""
        try:
            await self._collector.run(self._source)
        except Exception:
            log.exception("the session %s failed unexpectedly; its last line has the reason", self.name)
        finally:
            self.book.cancel_all(CancelReason.ENDED)
            self.is_over = True
            self.control.end()
            self.reading.wake()
            await self._clocks.set_phase(Phase.ENDED)

    @property
    def is_stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stop.cancelling.is_set()

    def stop(self, reason: StopReason | None = None) -> None:
        """End the session, and cancel everything in flight. Without a reason, its reader is not told of the end."""
        self._is_silent = reason is None
        self._stop.drain(reason or StopReason("gym_stopped", "the gym stops"))
        self._stop.cancelling.set()

    @property
    def has_all_tasks(self) -> bool:
        """Whether no further tasks come."""
        return self._source.is_ended

    def restore(self, lines: Mapping[int, bytes], *, ends: bool) -> None:
        """Take over the delivered groups of an earlier session. `ends`: its input had ended."""
        self.lines |= lines
        self._bytes += sum(map(len, lines.values()))
        if ends:
            self._source.end()

    # --- Requests -----------------------------------------------------------------------------------------------

    def submit(self, tasks: Sequence[SubmittedTask], *, ends: bool = False) -> dict[str, Any]:
        """Add tasks; those that were submitted before change nothing. `ends`: no further tasks come.

        Raises `InputError` if the session has ended, if there is no room for them (429), or if a key is reused.
        """
        new = [each for each in tasks if not self.book.has(each.key, each.round, each.digest)]
        if new and self._source.is_ended:
            raise self._refuse_ended()
        if len(self.book.waiting) + len(new) > self.options.max_waiting_tasks:
            raise self._refuse_tasks(len(new))
        for each in new:
            self.book.submit(each.key, each.round, each.digest, each)
        if ends:
            self._source.end()
        self._wake()
        return {
            "keys": [each.key for each in tasks],
            "digests": [each.digest for each in tasks],
            "new": len(new),
            "waiting": len(self.book.waiting),
            "ended": self._source.is_ended,
        }

    def consume(self, cursors: Iterable[int], version: int | None, *, refused: bool) -> dict[str, Any]:
        """Free delivered groups. `refused`: the reader found them stale, and did not train on them."""
        wanted = list(cursors)
        freed = self.book.consume(wanted, version, refused=refused)
        for cursor in wanted:
            self._bytes -= len(self.lines.pop(cursor, b""))
        self._wake()
        return {"consumed": freed}

    def set_version(self, version: int, *, reset: bool = False) -> dict[str, Any]:
        """Begin a version of the policy."""
        before = self.book.version
        useless = self.book.set_version(version, reset=reset)
        self._cancel(useless)
        self._wake()
        return {"version": version, "before": before, "cancelled_rollouts": len(useless)}

    def cancel(self, key: str, *, dry_run: bool = False) -> dict[str, Any]:
        """Cancel the group of a key."""
        group = self.book.find_cancellable(key)
        if not dry_run:
            self._cancel(self.book.cancel(group))
            self._wake()
        change = f"the group of {key!r} in round {group.round} is cancelled"
        return {"dry_run": dry_run, "changes": [change]}

    def requeue(self, key: str, *, dry_run: bool = False) -> dict[str, Any]:
        """Attempt the task of a key again, in another round; its group that is not delivered is cancelled."""
        group = self.book.find_known(key)
        if self.is_over or self._stop.requested:
            raise self._refuse_ended()
        if not dry_run:
            if group.is_cancellable:
                self._cancel(self.book.cancel(group))
            again: SubmittedTask = replace(group.task, round=group.round + 1)
            self.book.submit(key, again.round, again.digest, again)
            self._wake()
        return {
            "dry_run": dry_run,
            "changes": [f"the task of {key!r} is attempted in round {group.round + 1}"],
        }

    async def handle(self, verb: ControlVerb, request: ControlRequest) -> dict[str, Any]:
        """Carry out a request of control. When all rollouts are over, there is nothing to pause, resume or drain."""
        if self.is_over and verb in _STARTING_VERBS:
            return {"verb": verb, "dry_run": request.dry_run, "changes": ()} | self.control.describe()
        return await self.control.handle(verb, request)

    async def read(self, after: int, mine: int) -> AsyncGenerator[bytes, None]:
        """Yield the lines of the groups after the cursor `after`, and then each that is delivered, until the end.

        `mine`: the number of the stream in `reading`; another one ends it.
        """
        for cursor in sorted(each for each in self.lines if each > after):
            yield self.lines[cursor]
        while self.reading.is_current(mine) and not self._is_silent:
            line = self._deliver()
            if line is not None:
                yield line
            elif self.is_over and not self.book.is_deliverable:
                yield self._write_end()
                return
            elif not await self.reading.wait():
                yield write_sign(
                    self._describe_wait(), {"version": self.book.version, **self.book.count_phases()}
                )

    def describe(self) -> dict[str, Any]:
        """Return the state of the session as plain data."""
        counters, book, curriculum = self.book.counters, self.book, self.options.curriculum
        mean_tokens = book.measure_length()
        return {
            "id": self.name,
            "version": book.version,
            "options": self.options.model_dump(mode="json"),
            "groups": book.count_phases(),
            "capacity": book.capacity.most,
            "taken": book.capacity.taken,
            "unconsumed_bytes": self._bytes,
            "has_reader": self.reading.is_active,
            "waits_for": self._describe_wait(),
            "counters": counters.to_json(),
            "mean_tokens": counters.measure_bias(mean_tokens),
            "advice": list(counters.advise(self.options, mean_tokens)),
            "pools": count_pools(curriculum, book.curriculum) if curriculum is not None else None,
            "run": self.control.describe(),
        }

    # --- The collector's attempts -------------------------------------------------------------------------------

    def attempt(self, task: PlannedAttempt) -> Coroutine[Any, Any, AttemptResult]:
        """Make an attempt, and note the version with which it began."""
        self._began_with[task.identity] = self.book.version
        return self._attempter.attempt(task)

    def _draw(self) -> PlannedAttempt | None:
        start = self.book.draw()
        if start is None:
            return None
        group, repeat = start
        task = group.task.task
        seed = group.round * group.size + repeat
        encoded = task.encode_with_seed(seed) if self.options.num_repeats_add_seed else task.encoded
        identity = RolloutId(group.number, repeat)
        return PlannedAttempt(identity, task.agent, identity.head() + encoded[1:])

    def _settle(self, planned: PlannedAttempt, result: Scored | Failed) -> None:
        identity, options = planned.identity, self.options
        began_with = self._began_with.pop(identity, self.book.version)
        metric = options.useful.metric if options.useful is not None else None
        if isinstance(result, Scored) and identity.task in self.book.groups:
            self._rows[identity] = result.line
            self._bytes += len(result.line)
        self._cancel(
            self.book.settle(identity.task, build_member(identity.repeat, result, began_with, metric))
        )
        group = self.book.groups.get(identity.task)
        if group is not None and group.phase is GroupPhase.READY:
            self._wake()
        if self.book.step is not None and self.book.step.is_hopeless:
            self._stop.drain(
                StopReason(
                    "oversampled",
                    f"{self.book.step.describe()}: more than useful.max_oversampling allows",
                    "Submit tasks that are neither always nor never solved, or raise useful.max_oversampling.",
                )
            )

    def _cancel(self, rollouts: Sequence[RolloutId]) -> None:
        if rollouts:
            self._collector.cancel(set(rollouts))
            self._wake()

    def _count_rollouts(self) -> dict[str, int]:
        return count_rollouts(self._counters) | {"planned": self.book.counters.started_rollouts}

    def _wake(self) -> None:
        self.book.is_crowded = self._bytes > self.options.max_unconsumed_mib << 20
        self._source.wake()
        self.reading.wake()

    # --- GroupDelivery -----------------------------------------------------------------------------------------------

    def _deliver(self) -> bytes | None:
        delivery = self.book.deliver()
        if delivery is None:
            return None
        group = delivery.group
        line = write_group(delivery, self._take_rows(group), delivered_at=clock.wall_clock())
        assert group.cursor is not None
        self.lines[group.cursor] = line
        self._bytes += len(line)
        self._wake()  # a cancellation has given its place back
        return line

    def _take_rows(self, group: TaskGroup) -> dict[int, bytes]:
        rows = {}
        for repeat in range(group.size):
            line = self._rows.pop(RolloutId(group.number, repeat), None)
            if line is not None:
                self._bytes -= len(line)
                rows[repeat] = line
        return rows

    def _write_end(self) -> bytes:
        reason, counters = self._stop.reason, self.book.counters
        end = {
            "end": reason.code if reason is not None else "complete",
            "stop": asdict(reason) if reason is not None else None,
            "counters": counters.to_json(),
        }
        return orjson.dumps({END_KEY: end})

    def _describe_wait(self) -> str:
        """Return the reason why no group is delivered now."""
        phases = self.book.count_phases()
        if self.control.read_state().phase is Phase.PAUSED:
            return "resume"
        if phases["running"]:
            return "rollouts"
        if phases["waiting"]:
            return "consumed" if phases["delivered"] else "version"
        return "tasks"

    def _refuse_ended(self) -> InputError:
        return InputError(
            f"the input of session {self.name} has ended",
            code="input_ended",
            status=409,
            remedy="Open another session; `end=true` is for the last tasks.",
        )

    def _refuse_tasks(self, count: int) -> InputError:
        most = self.options.max_waiting_tasks
        if count > most:
            return InputError(
                f"{count} tasks are more than max_waiting_tasks, {most}",
                code="too_many_tasks",
                remedy="Submit fewer tasks at once.",
            )
        error = InputError(
            f"{len(self.book.waiting)} tasks are waiting, and max_waiting_tasks is {most}",
            code="queue_full",
            status=429,
            retryable=True,
            remedy="Submit them again when groups have been consumed.",
        )
        error.failure = replace(error.failure, retry_after_s=_RETRY_AFTER_S)
        return error


class _NoOutput:
    """Discards rows: they are in the lines of their groups."""

    def add_row(self, line: bytes) -> None:
        pass

    def add_failure(self, line: bytes) -> None:
        pass
