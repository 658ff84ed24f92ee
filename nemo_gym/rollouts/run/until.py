"""The plan of a run with `until`: draws of tasks, until their mean is known well enough.

A draw is one rollout of a task; with a pair of agents one rollout of each on the same task; with `generalize` all
repeats of a task. `nemo_gym.statistics.sequential` has the draw, and the reason why the interval holds at every look.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from nemo_gym import clock
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import parse_json
from nemo_gym.metrics import Planned
from nemo_gym.rollouts.output.draws import DrawFile, DrawRecord
from nemo_gym.rollouts.output.journal import Journal
from nemo_gym.rollouts.plan.compression import holds_text
from nemo_gym.rollouts.plan.dataset import read_lines
from nemo_gym.rollouts.plan.plan import PlannedAttempt, plan_attempts
from nemo_gym.rollouts.plan.task_rows import RepeatedTask
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult, Failed, Scored
from nemo_gym.rollouts.run.collector import Attempter
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.required_servers import name_with_model
from nemo_gym.rollouts.run.settings import CollectSettings
from nemo_gym.rollouts.run.stopping import Stop, StopReason
from nemo_gym.rollouts.run.until_estimate import UntilEstimate, describe_live, write_estimate
from nemo_gym.rollouts.run.until_losses import count_kept
from nemo_gym.rollouts.run.until_target import UntilTarget, read_target
from nemo_gym.rollouts.run.until_tokens import TokenCount
from nemo_gym.rollouts.run.until_units import count_most_draws, find_bound, find_units
from nemo_gym.rows.identity import RolloutId, identity_in
from nemo_gym.rows.verdict import is_terminal, is_unwanted, read_reward
from nemo_gym.statistics.allocation import Allocation, TaskMoments, allocate_draws, allocate_evenly
from nemo_gym.statistics.sequential import Draw, SequentialMean

_FIRST_DRAWS, _GROWTH = 16, 0.04
"""New probabilities are computed after this number of values, and this share of them."""
_PAIR_AIM = 0.02
"""The half-width, on the scale of half differences, for which draws of a pair are allocated."""
_UNKNOWN = (0.0, 1.0)


@dataclass(slots=True)
class OpenDraw:
    """A draw, and the bounds of its rewards on the scale from 0 to 1."""

    record: DrawRecord
    rewards: dict[RolloutId, tuple[float, float] | None]
    """None for a rollout that is not settled."""

    @property
    def is_settled(self) -> bool:
        return None not in self.rewards.values()


class UntilRun:
    """The draws of a run. Iterating yields the rollouts that are to be attempted next."""

    def __init__(
        self,
        target: UntilTarget,
        tasks: Sequence[tuple[int, Sequence[RepeatedTask]]],
        journal: Journal,
        counters: RunCounters,
        *,
        repeats: int = 1,
        adds_seed: bool = False,
        zero_classes: frozenset[str] = frozenset(),
        rng: random.Random | None = None,
    ) -> None:
        """Raises `ConfigError` if earlier draws of the output are of another kind."""
        self.target = target
        self.units = find_units(target, tasks, repeats)
        self._copies, self._adds_seed = dict(tasks), adds_seed
        self._zero_classes, self._rng = zero_classes, rng or clock.rng()
        self._counters, self._stop = counters, Stop()
        self._draws: list[OpenDraw] = []
        self._waiting: dict[RolloutId, OpenDraw] = {}
        self._added = self._values = self._next_allocation = 0
        self._repeats = [0] * len(self.units)
        self._moments = TaskMoments(len(self.units))
        self._order = iter(self._rng.sample(range(len(self.units)), len(self.units)))
        self._stored: Mapping[RolloutId, float] = {}
        self._lost: set[RolloutId] = set()
        self._is_drawing = False
        self._other_rows: set[RolloutId] = set()
        """Rows of the output that are those of no draw that counts."""
        self.tokens = TokenCount(target.most_tokens)
        self._most_draws = count_most_draws(target, self.units)
        self.mean = SequentialMean(len(self.units), target.scaled_half_width, predicts=not target.generalizes)
        self._allocation: Allocation = self._allocate()
        self._journal, self._file = journal, DrawFile(journal.files, self._describe_kind(repeats))
        self._continue()
        self._is_drawing = True
        counters.aim = self

    def attach(self, stop: Stop) -> None:
        """Let a reward outside its range, or a ceiling that cannot be kept, end the run by `stop`."""
        self._stop = stop

    def watched(self, attempter: Attempter) -> Attempter:
        """Return an attempter that tells of tokens, and of rollouts whose agents want no row."""
        return _WatchedAttempter(attempter, self)

    # --- Drawing ------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[PlannedAttempt]:
        for identity in list(self._waiting):
            yield self._plan(identity)
        while not self.is_over and (draw := self._draw()) is not None:
            self._counters.planned = self._count_planned()
            for identity in [each for each, bounds in draw.rewards.items() if bounds is None]:
                yield self._plan(identity)

    @property
    def is_reached(self) -> bool:
        """Return whether the aim is reached."""
        limits = self.mean.interval
        if self.target.pair is not None:
            return limits.low >= 0.5 or limits.high <= 0.5  # the limits themselves are rejected
        half_width = self.target.scaled_half_width
        return half_width is not None and limits.high - limits.low <= 2 * half_width

    @property
    def is_over(self) -> bool:
        """Return whether no further draw is due."""
        return self.is_reached or self._find_ceiling() is not None

    def _find_ceiling(self) -> str | None:
        """Return the ceiling that ends the draws before their aim."""
        if self.tokens.is_spent:
            return f"+max_total_tokens={self.tokens.most}"
        return find_bound(self.target, self.units, len(self._draws) + len(self._file.voided))

    def _draw(self) -> OpenDraw | None:
        if self._values >= self._next_allocation:
            self._allocation = self._allocate()
            self._next_allocation = self._values + max(_FIRST_DRAWS, int(_GROWTH * self._values))
        allocation = self._allocation
        if self.target.generalizes:
            unit = next((unit for unit in self._order if not self._repeats[unit]), -1)
            if unit < 0:
                return None
        else:
            unit = min(bisect_right(allocation.cumulated, self._rng.random()), len(self.units) - 1)
        record = DrawRecord(
            unit,
            self._repeats[unit],
            allocation.probabilities[unit],
            allocation.least,
            allocation.variance,
        )
        self._file.append(record)
        draw = self._open(record)
        self._take_stored(draw)
        return draw

    def _allocate(self) -> Allocation:
        if self.target.generalizes:
            return allocate_evenly(len(self.units), 0.25)
        return allocate_draws(self._moments.predict(), self.target.scaled_half_width or _PAIR_AIM)

    def _open(self, record: DrawRecord) -> OpenDraw:
        rollouts = self.units[record.unit].rollouts(record.repeat)
        draw = OpenDraw(record, dict.fromkeys(rollouts))
        self._repeats[record.unit] = max(self._repeats[record.unit], record.repeat + 1)
        self._draws.append(draw)
        self._waiting |= dict.fromkeys(rollouts, draw)
        return draw

    def _plan(self, identity: RolloutId) -> PlannedAttempt:
        copies = self._copies[identity.task]
        repeat = identity.repeat // len(copies)
        attempts = plan_attempts(identity.task, copies, self._adds_seed, range(repeat, repeat + 1))
        return next(attempt for attempt in attempts if attempt.identity == identity)

    # --- Values -------------------------------------------------------------------------------------------------

    def note(self, planned: PlannedAttempt, result: Scored | Failed) -> None:
        """Take the result of a rollout."""
        if isinstance(result, Scored):
            self._settle(planned.identity, self._scale(planned.identity, result.reward))
        elif result.failure_class in self._zero_classes:
            self._settle(planned.identity, self._scale(planned.identity, 0.0))
        else:
            self.note_unknown(planned.identity)

    def note_tokens(self, row: Mapping[str, Any]) -> None:
        """Take the answer to an attempt."""
        self.tokens.add(row)
        if (fault := self.tokens.find_fault()) is not None:
            self._stop.drain(fault)

    def note_discarded(self, identity: RolloutId) -> None:
        """Take the end of a rollout whose agent wants no row."""
        self._file.note_discarded(identity)
        self.note_unknown(identity)

    def note_unknown(self, identity: RolloutId) -> None:
        """Take the end of a rollout without a reward, which may have had any."""
        self._settle(identity, _UNKNOWN)

    def _scale(self, identity: RolloutId, reward: float) -> tuple[float, float]:
        least, most = self.target.least, self.target.most
        if not least <= reward <= most:
            self._stop.drain(
                StopReason(
                    "reward_out_of_range",
                    f"the reward of {identity} is {reward:g}, outside {least:g} to {most:g}: the interval is valid "
                    "only for rewards within bounds",
                    "Give the least and the largest reward that the verifier can return, such as "
                    f"+reward_range=[{min(least, reward):g},{max(most, reward):g}], with +overwrite=true.",
                )
            )
            return _UNKNOWN
        scaled = (reward - least) / (most - least)
        return scaled, scaled

    def _settle(self, identity: RolloutId, bounds: tuple[float, float]) -> None:
        draw = self._waiting.pop(identity, None)
        if draw is None:
            return
        draw.rewards[identity] = bounds
        if not draw.is_settled:
            return
        low, high = self._value_of(draw)
        if low == high:
            self._moments.add(draw.record.unit, low)
        self._values += 1
        has_changed = False
        while self._added < len(self._draws) and self._draws[self._added].is_settled:
            each = self._draws[self._added]
            has_changed |= self.mean.add(Draw(*_members(each.record), *self._value_of(each)))
            self._added += 1
        if has_changed and self._is_drawing:
            self._counters.planned = self._count_planned()
            with suppress(ConfigError):  # a full disk ends the run at its next row
                write_estimate(self._journal.files.estimate, self.estimate)

    def _value_of(self, draw: OpenDraw) -> tuple[float, float]:
        unit = self.units[draw.record.unit]
        known = [draw.rewards[identity] or _UNKNOWN for identity in unit.rollouts(draw.record.repeat)]
        return unit.value(known)

    # --- Resuming -----------------------------------------------------------------------------------------------

    def _continue(self) -> None:
        """Take the draws and the rows of earlier starts."""
        file = self._file
        drawn = {each for record in (*file.records, *file.voided) for each in self._list_rollouts(record)}
        ends = self._read_ends(drawn)
        self._stored = {identity: reward for identity, reward in ends.items() if reward is not None}
        self._use_other_rows({key: value for key, value in self._stored.items() if key not in drawn})
        self._find_lost(ends.keys() | file.discarded)
        for record in file.voided:
            self._repeats[record.unit] = max(self._repeats[record.unit], record.repeat + 1)
        for number, record in enumerate(file.records):
            draw = self._open(record)
            self._take_stored(draw)
            if number in file.lost:
                self._lost |= draw.rewards.keys() - ends.keys() - file.discarded
        for identity in self._lost:
            self.note_unknown(identity)
        counted = {identity for draw in self._draws for identity in draw.rewards}
        self._other_rows = self._stored.keys() - counted
        self._counters.planned = self._count_planned()

    def _find_lost(self, ended: Set[RolloutId]) -> None:
        """Let draws whose rollouts a kill has ended have any value, or not count."""
        file = self._file
        lost = [
            number
            for number, record in enumerate(file.records)
            if number not in file.lost and not ended >= {*self._list_rollouts(record)}
        ]
        if lost:
            aim = self.target.scaled_half_width or _PAIR_AIM
            kept = count_kept(lost, len(file.records), aim, earlier=len(file.lost))
            file.keep(kept, [number for number in lost if number < kept])

    def _list_rollouts(self, record: DrawRecord) -> list[RolloutId]:
        return self.units[record.unit].rollouts(record.repeat)

    def _take_stored(self, draw: OpenDraw) -> None:
        """Take the rewards of a draw that an earlier start has collected."""
        for identity in list(draw.rewards):
            if identity in self._stored:
                self._settle(identity, self._scale(identity, self._stored[identity]))

    def _read_ends(self, drawn: Collection[RolloutId]) -> dict[RolloutId, float | None]:
        """Return the rewards of all rows, None for final failures. Count the tokens of rollouts that were drawn."""
        ends: dict[RolloutId, float | None] = {}
        for path in (self._journal.files.rows, *self._journal.files.list_earlier_failures()):
            for line in read_lines(path) if holds_text(path) else ():
                row: dict[str, Any] = parse_json(line.content)
                identity, reward = identity_in(row), read_reward(row)
                if identity in drawn:
                    self.tokens.add(row)
                if identity is not None and (reward is not None or is_terminal(row)):
                    ends.setdefault(identity, reward)
        return ends

    def _use_other_rows(self, rewards: Mapping[RolloutId, float]) -> None:
        """Let rows that were not drawn help to predict. They are no part of the interval: no chance chose them."""
        for number, unit in enumerate(self.units):
            repeat = 0
            while any(identity in rewards for identity in unit.rollouts(repeat)):
                known = [rewards.get(identity) for identity in unit.rollouts(repeat)]
                if None not in known and not self.target.generalizes:
                    bounds = [self._scale(RolloutId(unit.task, repeat), reward or 0.0) for reward in known]
                    self._moments.add(number, unit.value(bounds)[0])
                repeat += 1
            self._repeats[number] = 0 if self.target.generalizes else repeat

    # --- Figures ------------------------------------------------------------------------------------------------

    @property
    def estimate(self) -> UntilEstimate:
        """Return what is known."""
        known = UntilEstimate.of(
            self.target,
            self.mean,
            units=len(self.units),
            rollouts_per_draw=self.units[0].size,
            drawn=len(self._draws),
            voided=len(self._file.voided),
            unknown=sum(_UNKNOWN in draw.rewards.values() for draw in self._draws[: self._added]),
            is_reached=self.is_reached,
            tokens=self.tokens,
            ceiling=None if self.is_reached else self._find_ceiling(),
        )
        drawn = {draw.record.unit for draw in self._draws[: self._added]}
        return replace(known, undrawn=len(self.units) - len(drawn))

    def describe(self) -> str:
        """Describe the interval for the progress line."""
        return describe_live(self.estimate)

    def conclude(self) -> UntilEstimate:
        """Write the estimate of all draws and return it."""
        self.mean.finish()
        estimate = self.estimate
        self._counters.planned = self.count_rows(len(self._draws))
        write_estimate(self._journal.files.estimate, estimate)
        return estimate

    def count_rows(self, draws: int) -> int:
        """Return the rows that the output has after this number of draws, if no rollout fails."""
        return draws * self.units[0].size - len(self._lost) + len(self._other_rows)

    def count_planned_by_agent(self) -> dict[str, Planned]:
        """Return the tasks and the rollouts that have rows, if no rollout fails, by agent."""
        tasks, rollouts = defaultdict[str, set[int]](set), Counter[str]()
        drawn = {identity for draw in self._draws for identity in draw.rewards} - self._lost
        for identity in drawn | self._other_rows:
            copies = self._copies[identity.task]
            agent = copies[identity.repeat % len(copies)].task.agent
            tasks[agent].add(identity.task)
            rollouts[agent] += 1
        return {agent: Planned(len(tasks[agent]), rollouts[agent]) for agent in tasks}

    def close(self) -> None:
        """Close the file of draws."""
        self._file.close()

    def _count_planned(self) -> int:
        """Return the rollouts that the run will have, as far as one can tell now."""
        drawn = len(self._draws)
        if not self.is_over:
            drawn = max(drawn, self.mean.draws + self.mean.count_left())
        return self.count_rows(min(drawn, self._most_draws or drawn))

    def _describe_kind(self, repeats: int) -> dict[str, object]:
        target = self.target
        return {
            "units": len(self.units),
            "generalize": target.generalizes,
            "pair": list(target.pair) if target.pair else None,
            "reward_range": [target.least, target.most],
            "repeats": repeats if target.generalizes else 1,
        }


def begin_draws(
    settings: CollectSettings,
    tasks: Sequence[tuple[int, Sequence[RepeatedTask]]],
    journal: Journal,
    counters: RunCounters,
    config: Mapping[str, Any],
) -> UntilRun:
    """Return the draws of a run of the gym with `config`.

    Raises `ConfigError` if those of earlier starts are of another kind.
    """
    target = read_target(settings)
    assert target is not None
    if target.pair is not None:
        one, other = (name_with_model(agent, config) for agent in target.pair)
        target = replace(target, labels=(one, other))
    return UntilRun(
        target,
        tasks,
        journal,
        counters,
        repeats=settings.repeats_of_a_draw,
        adds_seed=settings.num_repeats_add_seed,
        zero_classes=frozenset(settings.count_failure_classes_as_zero),
    )


def _members(record: DrawRecord) -> tuple[int, float, float, float]:
    return record.unit, record.probability, record.least, record.variance


@dataclass(frozen=True, slots=True)
class _WatchedAttempter:
    attempter: Attempter
    run: UntilRun

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        result = await self.attempter.attempt(task)
        if isinstance(result, AgentAnswer):
            self.run.note_tokens(result.row)
            if is_unwanted(result.row):
                self.run.note_discarded(task.identity)
        return result
