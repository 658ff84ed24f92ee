"""The groups of a session as a pure object: which rollout starts next, and which group is delivered.

It knows no event loop, no clock and no HTTP, so that millions of groups pass it in a simulation. The laws: every
admitted group is delivered or cancelled, once; a place in the capacity is given back once; rollouts of the group that
began first start first; no delivery is above the bound of staleness at its expected consumption.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any

from nemo_gym.failures import InputError
from nemo_gym.rollouts.sessions.admission import Capacity, SampledStep
from nemo_gym.rollouts.sessions.curriculum import CurriculumOptions, CurriculumState, observe, propose
from nemo_gym.rollouts.sessions.deliveries import GroupDelivery, Known, MemberStart, SessionCounters
from nemo_gym.rollouts.sessions.groups import (
    CancelReason,
    GroupPhase,
    Member,
    MetricSpread,
    TaskGroup,
    measure_spread,
)
from nemo_gym.rollouts.sessions.lengths import LengthEstimate
from nemo_gym.rollouts.sessions.options import SessionOptions
from nemo_gym.rollouts.sessions.staleness import Judged, find_floor, judge_staleness
from nemo_gym.rows.identity import RolloutId

_MOST_CANCELLATIONS = 4096
"""Cancellations that are not consumed, after which nothing starts."""


class GroupBook:
    """The groups of one session."""

    def __init__(self, options: SessionOptions, now: Callable[[], float] = lambda: 0.0) -> None:
        """`now`: seconds, for the times of admission and the lengths of rollouts."""
        self.options = options
        self.now = now
        self.version = 0
        self.counters = SessionCounters()
        self.lengths = LengthEstimate()
        self.capacity = Capacity.build(options)
        self.step = SampledStep(options.useful) if options.useful is not None else None
        self.curriculum = CurriculumState()
        self.known: dict[str, Known] = {}
        self.waiting: deque[TaskGroup] = deque()
        self.groups: dict[int, TaskGroup] = {}
        """Those that are admitted and not consumed, by number."""
        self.next_number = 0
        self.next_cursor = 0
        self.delivered: dict[int, GroupDelivery] = {}
        """Those that are not consumed, by cursor."""
        self._partly: deque[TaskGroup] = deque()
        """Those with rollouts that have not started."""
        self._out: deque[TaskGroup] = deque()
        """Those to deliver, in order; with `fifo` those that are not delivered, in order of admission."""
        self._urgent: deque[TaskGroup] = deque()
        """Cancellations of groups that were not admitted."""
        self._running = 0
        self._unconsumed = 0
        """Groups that are ready or delivered; without cancellations."""
        self._deliveries = 0
        """Groups that are delivered; without cancellations."""
        self.is_crowded = False
        """True while what is not consumed takes too much memory, so that no group starts."""
        self._held: deque[int] = deque()
        """The version that consumed each group whose place is held until the next version."""
        self._has_consumed = False

    # --- Tasks in -----------------------------------------------------------------------------------------------

    def has(self, key: str, round: int, digest: str) -> bool:
        """Return whether a task was submitted in this round before.

        Raises `InputError` if the key stands for another task.
        """
        known = self.known.get(key)
        if known is not None and known.digest != digest:
            raise InputError(
                f"the key {key!r} was submitted with another task",
                code="key_reused",
                status=409,
                remedy="Use one key per task; without a key, the digest of the task is its key.",
            )
        return known is not None and round <= known.round

    def submit(self, key: str, round: int, digest: str, task: Any) -> bool:
        """Add a task. Returns False for one that was submitted in this round before. Raises as `has`."""
        if self.has(key, round, digest):
            return False
        self.known[key] = Known(digest, round)
        self.waiting.append(TaskGroup(self.next_number, key, round, self.options.group_size, task))
        self.next_number += 1
        self.counters.submitted += 1
        return True

    # --- Rollouts -----------------------------------------------------------------------------------------------

    def count_ready(self) -> int:
        """Return the number of rollouts that could start now."""
        started = sum(each.size - each.started for each in self._partly if each.phase is GroupPhase.RUNNING)
        return started + self._count_admissible() * self.options.group_size

    def draw(self) -> MemberStart | None:
        """Return the next rollout to start, of the group that began first; None if there is none now."""
        while self._partly and self._partly[0].phase is not GroupPhase.RUNNING:
            self._partly.popleft()
        if not self._partly and not self._admit():
            return None
        group = self._partly[0]
        repeat = group.started
        group.started_at.append(self.now())
        self.counters.started_rollouts += 1
        if group.started == group.size:
            self._partly.popleft()
        return MemberStart(group, repeat)

    def settle(self, number: int, member: Member) -> list[RolloutId]:
        """Record a settled rollout. Returns those in flight that have become useless.

        A rollout of a group that is out already, such as one that was cancelled meanwhile, changes nothing.
        """
        group = self.groups.get(number)
        if group is None or group.phase is not GroupPhase.RUNNING:
            self.counters.wasted_tokens += member.tokens
            return []
        group.settled.append(member)
        if member.is_usable:
            self.lengths.add_finished(self.now() - group.started_at[member.repeat], member.tokens)
            self.counters.sampled_rollouts += 1
            self.counters.sampled_tokens += member.tokens
        else:
            group.failed += 1
            self.counters.failed_rollouts += 1
        left = group.size - group.failed
        if left < self.options.needed_members or not left:
            return self._cancel(group, CancelReason.TOO_FEW)
        if self._is_hopeless(group):
            return self._cancel(group, CancelReason.STALE)
        if len(group.settled) == group.size:
            return self._complete(group)
        return []

    def cancel(self, group: TaskGroup, reason: CancelReason = CancelReason.ASKED) -> list[RolloutId]:
        """Cancel a group that is not delivered. Returns its rollouts in flight."""
        return self._cancel(group, reason)

    def cancel_all(self, reason: CancelReason) -> list[RolloutId]:
        """Cancel every group that is waiting or running. Returns their rollouts in flight."""
        running = [each for each in self.groups.values() if each.phase is GroupPhase.RUNNING]
        return [rollout for each in [*running, *self.waiting] for rollout in self._cancel(each, reason)]

    def find_known(self, key: str) -> TaskGroup:
        """Return the latest group of a key that is not consumed. Raises `InputError` if there is none."""
        found = [each for each in (*self.groups.values(), *self.waiting) if each.key == key]
        if not found:
            raise _refuse_key(key, "submitted and not consumed")
        return max(found, key=lambda each: each.round)

    def find_cancellable(self, key: str) -> TaskGroup:
        """Return the latest group of a key. Raises `InputError` if it is out already."""
        group = self.find_known(key)
        if not group.is_cancellable:
            raise _refuse_key(key, "waiting, running or ready")
        return group

    # --- Groups out ---------------------------------------------------------------------------------------------

    def deliver(self) -> GroupDelivery | None:
        """Return the next group or cancellation, with its cursor; None if there is none now."""
        if self._urgent:
            return self._hand_over(self._urgent.popleft(), Judged(()), None)
        if not self._out or self._out[0].phase is not GroupPhase.READY:
            return None
        group = self._out.popleft()
        if group.cancelled is not None:
            return self._hand_over(group, Judged(()), measure_spread(group.settled))
        judged = judge_staleness(self.options.staleness, group.usable, self.find_floor())
        in_baseline = judged.find_baseline(self.options.staleness)
        spread = measure_spread(in_baseline)
        if judged.is_stale or len(in_baseline) < self.options.needed_members:
            self._release(group, CancelReason.STALE)
        elif judged.dropped and not self._is_useful(spread):
            self._release(group, CancelReason.ZERO_VARIANCE)
        return self._hand_over(group, judged, spread)

    def add_delivered(self, delivery: GroupDelivery) -> None:
        """Take over a delivery of an earlier session."""
        group = delivery.group
        assert group.cursor is not None
        self.groups[group.number] = group
        self.delivered[group.cursor] = delivery
        if group.cancelled is None:
            self.capacity.taken += 1
            self._unconsumed += 1
            self._deliveries += 1

    def consume(self, cursors: Iterable[int], version: int | None = None, *, refused: bool = False) -> int:
        """Free delivered groups; a repetition changes nothing. Returns the number of those that were freed.

        `version`: the one that trained on them. `refused`: it did not, because they had become stale.

        Raises `InputError` for a cursor that was not delivered, or a version that is not the session's.
        """
        wanted = list(cursors)
        self._check_consumption(wanted, version)
        freed = 0
        for cursor in wanted:
            if (delivery := self.delivered.pop(cursor, None)) is None:
                continue
            freed += 1
            group = delivery.group
            group.become(GroupPhase.ENDED)
            del self.groups[group.number]
            if group.cancelled is None:
                self._note_consumed(delivery, refused=refused)
        return freed

    def set_version(self, version: int, *, reset: bool = False) -> list[RolloutId]:
        """Begin a version of the policy. Returns rollouts in flight that have become useless.

        Raises `InputError` for a version that goes back without `reset`.
        """
        if version < self.version and not reset:
            raise InputError(
                f"version {version} is older than the session's, {self.version}",
                code="version_back",
                status=409,
                remedy="A version only rises; pass reset=true to go back on purpose, such as to a checkpoint.",
            )
        if version == self.version:
            return []
        self.version = version
        while self._held:
            self._held.popleft()
            self.capacity.give_back()
        if self.step is not None:
            self.step.begin()
        useless = []
        for group in list(self.groups.values()):
            if group.phase is GroupPhase.RUNNING and self._is_hopeless(group):
                useless += self._cancel(group, CancelReason.STALE)
        return useless

    def expect_version(self) -> int:
        """Return the version at which the next delivered group is expected to be consumed."""
        step, ahead = self.options.groups_per_step, self._deliveries
        if step is not None:
            return self.version + ahead // step
        return self.version if self._has_consumed or not ahead else self.version + 1

    def find_floor(self) -> int | None:
        """Return the least version that the next delivered group may be trained on."""
        return find_floor(self.options.staleness, self.expect_version())

    @property
    def is_empty(self) -> bool:
        """Whether nothing is waiting, running or ready to be delivered."""
        return not self.waiting and not self._out and not self._urgent and not self._running

    @property
    def is_deliverable(self) -> bool:
        """Whether `deliver` returns something."""
        return bool(self._urgent) or bool(self._out and self._out[0].phase is GroupPhase.READY)

    def count_phases(self) -> dict[str, int]:
        """Return the number of groups in each phase."""
        phases = Counter(each.phase.value for each in self.groups.values())
        return {
            "waiting": len(self.waiting),
            **{name: phases[name] for name in ("running", "ready", "delivered")},
        }

    def measure_length(self) -> float | None:
        """Return the mean tokens of a rollout, those included that were cancelled or are in flight."""
        running = [each for each in self.groups.values() if each.phase is GroupPhase.RUNNING]
        now = self.now()
        return self.lengths.measure_mean(
            now - each.started_at[repeat] for each in running for repeat in each.in_flight
        )

    # --- Inside -------------------------------------------------------------------------------------------------

    def _count_admissible(self) -> int:
        free = self.capacity.count_free()
        room = self.options.unconsumed_groups - self._unconsumed
        is_closed = (
            (self.step is not None and (self.step.is_full or self.step.is_hopeless))
            or len(self.delivered) - self._deliveries > _MOST_CANCELLATIONS
            or room <= 0
            or self.is_crowded
        )
        return 0 if is_closed else min(len(self.waiting), len(self.waiting) if free is None else free)

    def _admit(self) -> bool:
        if not self._count_admissible():
            return False
        group = (
            self.waiting.popleft()
            if self.options.curriculum is None
            else self._choose(self.options.curriculum)
        )
        self.capacity.take()
        group.become(GroupPhase.RUNNING)
        group.admitted_version, group.admitted_at = self.version, self.now()
        self.groups[group.number] = group
        self._partly.append(group)
        self._running += 1
        if self.options.order == "fifo":
            self._out.append(group)
        self.counters.admitted += 1
        return True

    def _is_hopeless(self, group: TaskGroup) -> bool:
        """Return whether a running group is stale already, whenever it is delivered."""
        stale = self.options.staleness
        if stale.then != "drop" or stale.of != "group":
            return False
        floor = find_floor(stale, self.version)
        return floor is not None and any(each.versions.oldest < floor for each in group.usable)

    def _is_useful(self, spread: MetricSpread | None) -> bool:
        useful = self.options.useful
        return useful is None or (spread is not None and spread.std >= useful.min_std)

    def _choose(self, curriculum: CurriculumOptions) -> TaskGroup:
        place, self.curriculum = propose(curriculum, self.curriculum, [each.key for each in self.waiting])
        group = self.waiting[place]
        del self.waiting[place]
        return group

    def _complete(self, group: TaskGroup) -> list[RolloutId]:
        if self.step is not None:
            self.step.sampled += 1
        spread = measure_spread(group.settled)
        if self.options.curriculum is not None and spread is not None:
            self.curriculum = observe(self.curriculum, group.key, spread.mean)
        if not self._is_useful(spread):
            return self._cancel(group, CancelReason.ZERO_VARIANCE)
        self._finish(group)
        if self.step is None:
            return []
        self.step.useful += 1
        if not self.step.is_full or self.step.options.surplus == "keep":
            return []
        return [
            rollout
            for each in list(self.groups.values())
            if each.phase is GroupPhase.RUNNING
            for rollout in self._cancel(each, CancelReason.SURPLUS)
        ]

    def _finish(self, group: TaskGroup) -> None:
        group.become(GroupPhase.READY)
        self._running -= 1
        self._unconsumed += 1
        if self.options.order != "fifo":
            self._out.append(group)

    def _cancel(self, group: TaskGroup, reason: CancelReason) -> list[RolloutId]:
        """Make a group come out as a cancellation. Returns its rollouts in flight."""
        if group.phase is GroupPhase.WAITING:
            self.waiting.remove(group)
            group.become(GroupPhase.READY)
            group.cancelled = reason
            self.groups[group.number] = group
            self._urgent.append(group)
            return []
        was_running = group.phase is GroupPhase.RUNNING
        if not was_running:
            self._release(group, reason)
            return []
        self._finish(group)
        self._release(group, reason)
        for repeat in group.in_flight:
            self.lengths.add_cancelled(self.now() - group.started_at[repeat])
        return [RolloutId(group.number, repeat) for repeat in group.in_flight]

    def _release(self, group: TaskGroup, reason: CancelReason) -> None:
        """Turn a ready group into a cancellation, which takes no place in the capacity."""
        group.cancelled = reason
        self.capacity.give_back()
        self._unconsumed -= 1
        self.counters.wasted_tokens += int(group.spent["tokens"])

    def _hand_over(self, group: TaskGroup, judged: Judged, spread: MetricSpread | None) -> GroupDelivery:
        delivery = GroupDelivery(group, judged, self.expect_version(), spread)
        group.become(GroupPhase.DELIVERED)
        group.cursor = self.next_cursor
        self.next_cursor += 1
        self.delivered[group.cursor] = delivery
        counters = self.counters
        if group.cancelled is not None:
            counters.cancelled[group.cancelled.value] += 1
            return delivery
        trained = [each for each in judged.kept if each.repeat not in judged.withheld]
        counters.delivered += 1
        self._deliveries += 1
        counters.dropped_rollouts += len(judged.dropped)
        counters.withheld_rollouts += len(judged.withheld)
        counters.masked_groups += judged.mask_below is not None
        counters.trained_rollouts += len(trained)
        counters.trained_tokens += sum(each.tokens for each in trained)
        return delivery

    def _check_consumption(self, cursors: list[int], version: int | None) -> None:
        unknown = [cursor for cursor in cursors if not 0 <= cursor < self.next_cursor]
        if unknown:
            raise InputError(
                f"the cursor {unknown[0]} was not delivered",
                code="unknown_cursor",
                remedy=f"The last delivered cursor is {self.next_cursor - 1}.",
            )
        if version is not None and version > self.version:
            raise InputError(
                f"groups were consumed at version {version}, and the session's version is {self.version}",
                code="version_unknown",
                status=409,
                remedy="Tell the session of a version (update_policy) before groups are consumed with it.",
            )

    def _note_consumed(self, delivery: GroupDelivery, *, refused: bool) -> None:
        self._unconsumed -= 1
        self._deliveries -= 1
        self._has_consumed = True
        if refused:
            self.counters.refused += 1
            self.capacity.give_back()
            return
        self.counters.consumed += 1
        oldest = min(each.versions.oldest for each in delivery.judged.kept)
        self.counters.oldest_consumed = max(self.counters.oldest_consumed, self.version - oldest)
        # The policy is being trained on it, so the groups admitted meanwhile are consumed by a later version.
        self._held.append(self.version)
        if len(self._held) > (self.options.groups_per_step or 0):
            self._held.popleft()
            self.capacity.give_back()


def _refuse_key(key: str, state: str) -> InputError:
    return InputError(
        f"no group of the key {key!r} is {state}",
        code="no_group",
        status=409,
        remedy="Submit the key in a later round to attempt its task again.",
    )
