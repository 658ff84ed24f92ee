"""Rollout sessions in virtual time: a trainer, slots of an engine, and the real `GroupBook` between them.

    found = play(draw_scenario(17))
    assert found.violation is None

Only time, lengths and outcomes are simulated. The laws are checked from outside, against what really happened:

- every admitted group comes out once, as a group or as a cancellation;
- places in the capacity are never negative, and the stream never stands still;
- no token is trained on above a strict bound of staleness, measured with the versions that really sampled it;
- no failed rollout is trained on, and no task is overtaken for ever.

`python -m simulation +groups=1000000` plays that number of groups. `measure_busy` is the experiment that
docs/train_asynchronously.md shows.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from nemo_gym.rollouts.sessions.book import GroupBook
from nemo_gym.rollouts.sessions.deliveries import GroupDelivery
from nemo_gym.rollouts.sessions.groups import Member, TaskGroup, Versions
from nemo_gym.rollouts.sessions.options import SessionOptions, StalenessOptions, UsefulOptions
from nemo_gym.rows.identity import RolloutId

_TOKENS_PER_S = 100
_MOST_OVERTAKEN = 4096
"""Later tasks that may start before an earlier one."""


@dataclass(frozen=True, slots=True)
class SessionScenario:
    """A session, and the world around it."""

    seed: int
    options: SessionOptions
    tasks: int
    slots: int
    sigma: float = 1.0
    """Of the logarithm of a rollout's seconds, whose median is 1."""
    train_s: float = 2.0
    """Seconds of a step of the trainer."""
    failing: float = 0.0
    """Share of rollouts that fail."""
    useless: float = 0.0
    """Share of tasks whose rollouts all have the same reward."""
    cancelling: float = 0.0
    """Share of deliveries after which a random task is cancelled."""
    steps: int | None = None
    """Steps after which the play ends, in the middle of everything; None for the end of the tasks."""
    is_closed: bool = False
    """True for closed batches: a step's groups start when the last step is over."""


@dataclass(slots=True)
class Played:
    """The event."""

    violation: str | None = None
    busy: float = 0.0
    """Share of the slots' time in use."""
    steps: int = 0
    seconds: float = 0.0
    delivered: int = 0
    cancelled: int = 0
    sampled_mean: float = 0.0
    trained_mean: float = 0.0
    told_mean: float = 0.0
    """The mean that the book estimates for all rollouts, those included that were cancelled in flight."""
    most_stale: int = 0
    """The largest staleness of a group's oldest token, masked or not."""
    trace: int = 0
    """A digest of all deliveries, to compare replays."""


class Truth(NamedTuple):
    """The policy that really sampled a rollout."""

    versions: Versions
    failed: bool
    seconds: float


class ViolationError(Exception):
    """A law does not hold."""


Stamp = Callable[[Truth, int], Member]
"""Returns the settled rollout of a truth and a repeat; plants of defects replace it."""


def stamp_truly(truth: Truth, repeat: int) -> Member:
    """Return a rollout as it was."""
    tokens = max(1, round(_TOKENS_PER_S * truth.seconds))
    metric = None if truth.failed else 1.0
    return Member(repeat, truth.versions, metric, tokens, truth.seconds)


@dataclass(slots=True)
class _Slot:
    rollout: RolloutId
    began_with: int
    seconds: float


@dataclass(slots=True)
class _World:
    """One play."""

    scenario: SessionScenario
    book: GroupBook
    stamp: Stamp
    rng: random.Random
    now: float = 0.0
    events: list[tuple[float, int, _Slot | None]] = field(default_factory=list)
    number: int = 0
    slots: dict[RolloutId, _Slot] = field(default_factory=dict)
    truths: dict[RolloutId, Truth] = field(default_factory=dict)
    busy_s: float = 0.0
    submitted: int = 0
    batch: list[GroupDelivery] = field(default_factory=list)
    is_training: bool = False
    out: set[int] = field(default_factory=set)
    admitted: set[int] = field(default_factory=set)
    useless: set[int] = field(default_factory=set)
    highest: int = -1
    overtaken: int = 0
    oldest_waiting: int = 0
    played: Played = field(default_factory=Played)
    trained: list[float] = field(default_factory=lambda: [0.0, 0.0])
    sampled: list[float] = field(default_factory=lambda: [0.0, 0.0])

    # --- Events -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        step = self.scenario.options.groups_per_step or 1
        while True:
            self.feed()
            self.fill_slots()
            self.take(step)
            if not self.events:
                if self.book.count_ready() and not self.scenario.is_closed:
                    continue  # a delivery has made room
                break
            at, _, slot = heapq.heappop(self.events)
            self.busy_s += (at - self.now) * len(self.slots)
            self.now = at
            if slot is None:
                self.end_step()
                if self.played.steps == self.scenario.steps:
                    return
            elif self.slots.get(slot.rollout) is slot:
                self.settle(slot)
        self.check_end()

    def schedule(self, seconds: float, slot: _Slot | None) -> None:
        self.number += 1
        heapq.heappush(self.events, (self.now + seconds, self.number, slot))

    def feed(self) -> None:
        most = self.book.options.max_waiting_tasks
        while self.submitted < self.scenario.tasks and len(self.book.waiting) < most:
            if self.scenario.useless and self.rng.random() < self.scenario.useless:
                self.useless.add(self.submitted)
            self.book.submit(str(self.submitted), 0, "", None)
            self.submitted += 1

    def fill_slots(self) -> None:
        if self.scenario.is_closed and (self.is_training or self.batch):
            return
        while len(self.slots) < self.scenario.slots:
            start = self.book.draw()
            if start is None:
                return
            rollout = RolloutId(start.group.number, start.repeat)
            if rollout in self.truths or rollout in self.slots:
                raise ViolationError(f"the rollout {rollout} started twice")
            self.note_admitted(start.group)
            seconds = self.rng.lognormvariate(0.0, self.scenario.sigma)
            slot = self.slots[rollout] = _Slot(rollout, self.book.version, seconds)
            self.schedule(seconds, slot)

    def note_admitted(self, group: TaskGroup) -> None:
        if group.number in self.admitted:
            return
        self.admitted.add(group.number)
        while self.oldest_waiting in self.admitted or self.oldest_waiting in self.out:
            self.oldest_waiting += 1
        if group.number - self.oldest_waiting > _MOST_OVERTAKEN or (
            group.number > self.oldest_waiting
            and self.book.waiting
            and self.book.waiting[0].number < group.number
        ):
            raise ViolationError(f"the task {self.oldest_waiting} is overtaken by {group.number}: it starves")

    def settle(self, slot: _Slot) -> None:
        del self.slots[slot.rollout]
        failed = self.rng.random() < self.scenario.failing
        truth = Truth(Versions(slot.began_with, self.book.version), failed, slot.seconds)
        self.truths[slot.rollout] = truth
        member = self.stamp(truth, slot.rollout.repeat)
        if member.metric is not None and not (truth.failed and member.metric == 0.0):
            is_useless = slot.rollout.task in self.useless
            member = replace(member, metric=1.0 if is_useless else float(slot.rollout.repeat % 2))
        if not failed:
            self.sampled[0] += 1
            self.sampled[1] += slot.seconds
        self.drop(self.book.settle(slot.rollout.task, member))
        self.check_capacity()

    def drop(self, rollouts: list[RolloutId]) -> None:
        for rollout in rollouts:
            self.slots.pop(rollout, None)

    # --- The trainer --------------------------------------------------------------------------------------------

    def take(self, step: int) -> None:
        while not self.is_training:
            delivery = self.book.deliver()
            if delivery is None:
                is_last = self.book.is_empty and self.submitted == self.scenario.tasks
                if self.batch and is_last:
                    self.begin_step()
                return
            self.note_out(delivery)
            if delivery.group.cancelled is None:
                self.batch.append(delivery)
                if len(self.batch) >= step:
                    self.begin_step()

    def begin_step(self) -> None:
        self.is_training = True
        for delivery in self.batch:
            self.check_trained(delivery)
        self.schedule(self.scenario.train_s, None)

    def end_step(self) -> None:
        self.book.consume([each.group.cursor or 0 for each in self.batch], self.book.version)
        self.batch.clear()
        self.is_training = False
        self.drop(self.book.set_version(self.book.version + 1))
        self.played.steps += 1
        self.check_capacity()

    def note_out(self, delivery: GroupDelivery) -> None:
        number = delivery.group.number
        if number in self.out:
            raise ViolationError(f"the group {number} came out twice")
        self.out.add(number)
        self.played.trace = hash((self.played.trace, number, str(delivery.group.cancelled)))
        if delivery.group.cancelled is not None:
            self.played.cancelled += 1
            self.book.consume([delivery.group.cursor or 0])
            self.forget(delivery.group)
        else:
            self.played.delivered += 1
            if self.rng.random() < self.scenario.cancelling and self.book.waiting:
                self.drop(self.book.cancel(self.rng.choice(self.book.waiting)))

    def check_trained(self, delivery: GroupDelivery) -> None:
        """Check what is trained on at this version, against what really sampled it."""
        stale, judged, version = self.scenario.options.staleness, delivery.judged, self.book.version
        for member in judged.kept:
            truth = self.truths[RolloutId(delivery.group.number, member.repeat)]
            if truth.failed:
                raise ViolationError(f"a failed rollout of the group {delivery.group.number} is trained on")
            self.played.most_stale = max(self.played.most_stale, version - truth.versions.oldest)
            if member.repeat in judged.withheld:
                continue
            self.trained[0] += 1
            self.trained[1] += truth.seconds
            floor = truth.versions.oldest if judged.mask_below is None else judged.mask_below
            if stale.bound is not None and version - max(floor, truth.versions.oldest) > stale.bound:
                raise ViolationError(
                    f"a token of version {truth.versions.oldest} is trained on at version {version}, "
                    f"above the bound of {stale.bound}"
                )
        self.forget(delivery.group)

    def forget(self, group: TaskGroup) -> None:
        for repeat in range(group.size):
            self.truths.pop(RolloutId(group.number, repeat), None)

    # --- Laws ---------------------------------------------------------------------------------------------------

    def check_capacity(self) -> None:
        capacity = self.book.capacity
        if capacity.taken < 0 or (capacity.most is not None and capacity.taken > capacity.most):
            raise ViolationError(f"{capacity.taken} of {capacity.most} places are taken")

    def check_end(self) -> None:
        if len(self.out) < self.scenario.tasks:
            raise ViolationError(
                f"the stream stands still after {len(self.out)} of {self.scenario.tasks} groups: "
                f"{self.book.capacity.taken} of {self.book.capacity.most} places are taken"
            )
        counters = self.book.counters
        if counters.submitted != counters.delivered + counters.cancelled.total():
            raise ViolationError("the counts of submitted, delivered and cancelled groups do not add up")


def play(
    scenario: SessionScenario,
    build_book: Callable[[SessionOptions], GroupBook] = GroupBook,
    stamp: Stamp = stamp_truly,
) -> Played:
    """Play a scenario. `build_book` and `stamp` let tests plant defects."""
    world = _World(scenario, build_book(scenario.options), stamp, random.Random(scenario.seed))
    world.book.now = lambda: world.now
    played = world.played
    try:
        world.run()
    except (ViolationError, AssertionError) as violation:
        played.violation = str(violation) or "an assertion of the book failed"
    played.seconds = world.now
    played.busy = world.busy_s / (world.now * scenario.slots) if world.now else 0.0
    played.sampled_mean = world.sampled[1] / (world.sampled[0] or 1)
    played.trained_mean = world.trained[1] / (world.trained[0] or 1)
    played.told_mean = (world.book.measure_length() or 0.0) / _TOKENS_PER_S
    return played


WAYS = (("token", "mask"), ("rollout", "drop"), ("rollout", "withhold"), ("group", "drop"), ("group", "wait"))


def draw_scenario(seed: int, tasks: int = 200) -> SessionScenario:
    """Return the scenario of a seed."""
    rng = random.Random(f"session/{seed}")
    of, then = rng.choice(WAYS)
    step, size = rng.choice([1, 2, 4, 8]), rng.choice([1, 2, 3, 4])
    bound = rng.choice([0, 1, 2, 4]) if then == "wait" or rng.random() < 0.9 else None
    is_fifo = then == "wait" or rng.random() < 0.3
    useful = None
    if size > 1 and rng.random() < 0.4:
        useful = UsefulOptions(min_std=0.01)
    options = SessionOptions(
        group_size=size,
        groups_per_step=step,
        min_members=rng.randint(1, size),
        staleness=StalenessOptions.model_validate({"bound": bound, "of": of, "then": then}),
        order="fifo" if is_fifo else "ready_first",
        useful=useful,
        max_waiting_tasks=rng.choice([16, 64]),
    )
    return SessionScenario(
        seed,
        options,
        tasks,
        slots=rng.choice([2, 8, 32]),
        sigma=rng.choice([0.5, 1.0, 1.5]),
        train_s=rng.choice([0.1, 1.0, 3.0]),
        failing=rng.choice([0.0, 0.1, 0.5]),
        useless=rng.choice([0.1, 0.9]) if useful is not None else 0.0,
        cancelling=rng.choice([0.0, 0.05]),
    )


GROUP_SIZE, STEP, SLOTS, TRAIN_S = 8, 64, 512, 2.0
"""Of the experiment: rollouts of a group, groups of a step, rollouts in flight, and seconds of a step."""
POLICIES: dict[str, dict[str, Any]] = {
    "closed batches": {"bound": 0},
    "ready first, mask": {"of": "token", "then": "mask"},
    "ready first, drop": {"of": "group", "then": "drop"},
    "oldest first, wait": {"of": "group", "then": "wait"},
}


def build_options(policy: str, bound: int) -> SessionOptions:
    """Return the options of a policy's session: steps of 64 groups of 8."""
    way = {**POLICIES[policy], **({"bound": bound} if policy != "closed batches" else {})}
    return SessionOptions(
        group_size=GROUP_SIZE,
        groups_per_step=STEP,
        staleness=StalenessOptions.model_validate(way),
        order="fifo" if way.get("then") == "wait" else "ready_first",
        num_samples_in_parallel=SLOTS,
        max_unconsumed_groups=1 << 20,
    )


def measure_busy(policy: str, bound: int, *, sigma: float = 1.0, steps: int = 200, seed: int = 0) -> Played:
    """Play `steps` steps of 64 groups of 8 on 512 slots; a step of the trainer takes twice the median rollout."""
    scenario = SessionScenario(
        seed,
        build_options(policy, bound),
        1 << 30,
        slots=SLOTS,
        sigma=sigma,
        train_s=TRAIN_S,
        steps=steps,
        is_closed=policy == "closed batches",
    )
    return play(scenario)
