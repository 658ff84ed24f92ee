"""Scripts of calls with a known right verdict, made from a tool task's gold script, and the verifier's verdict on each.

    outcomes = probe_tool_task("tool_tasks/ice_rink_t2", seed=0)

Runs in a worker process, because it imports the code of the task. The gold script must get the best reward. Nothing,
random calls, the gold script without one of its writing calls, with another value of an argument that the request
states, with a call that damages a bystander, or where a thing is missing that the request names, must get less. A call
writes if the state differs after it.

The loop goes once through the gold script and back, and runs each variant only from the place where it differs.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right, judge
from nemo_gym.audit.request_words import RequestWords, reads_by_name
from nemo_gym.audit.tool_damage import Bystanders
from nemo_gym.audit.tool_entities import Key, find_changes, list_entities
from nemo_gym.audit.tool_grounds import OmissionGrounds
from nemo_gym.config.problems import Problems
from nemo_gym.sources.tool_tasks import ScriptCall, ToolTask, read_tool_task
from nemo_gym.sources.tool_world import Snapshot, ToolWorld, Undo

GOLD, AGAIN, NOTHING, RANDOM = "gold", "gold in another process", "nothing", "random calls"
OMISSION, UNNEEDED = "gold without a call", "gold without all unneeded calls"
CHANGED, DAMAGE = "changed argument", "extra call on a bystander"
IMPOSSIBLE = "gold where the request is impossible"
TOOL_KINDS = (GOLD, AGAIN, NOTHING, RANDOM, OMISSION, UNNEEDED, CHANGED, DAMAGE, IMPOSSIBLE)
"""The classes of probes of a tool task."""

_SALTS = range(1, 22)
_RANDOM_SCRIPTS, _RANDOM_CALLS = 2, 8
_MOST_IMPOSSIBLE = 4


def probe_tool_task(folder: str, seed: int) -> list[dict[str, Any]]:
    """Return the outcomes of all probes of the task in `folder`, as JSON. Raises `ConfigError` if it cannot be run."""
    was_enabled = gc.isenabled()
    gc.disable()  # classes of a task are cycles, and a collection in between costs more than the probes
    try:
        problems = Problems()
        task = read_tool_task(Path(folder), problems)
        problems.raise_if_any()
        assert task is not None
        return [outcome.as_json() for outcome in ToolProbes(task, ToolWorld(task.folder), seed).run()]
    finally:
        if was_enabled:
            gc.enable()


class ToolProbes:
    """The probes of one task."""

    def __init__(self, task: ToolTask, world: ToolWorld, seed: int) -> None:
        self.task = task
        self.world = world
        self.request = RequestWords(task.request)
        self._random = random.Random(f"{seed} {task.name}")
        self._start = Snapshot(world)
        self._now = self._start.duplicate()
        """The state that `_replay` begins with."""
        self._writes: dict[int, Undo] = {}
        self._writers: set[str] = set()
        """Tools that write somewhere in the gold script; the others read, and are not replayed."""
        self._first_state: Mapping[str, Any] = world.db.model_dump()
        self._final_state: Mapping[str, Any] = {}

    def run(self) -> Iterator[ProbeOutcome]:
        yield self._judge(NOTHING, Right.REJECT)
        gold = self._run_gold()
        yield gold
        if gold.conclusion is Conclusion.RIGHT:  # without it nothing is known of its variants
            yield from self._add_damage()
            yield from self._change_calls()
            yield from self._change_hashes()
            yield from self._make_impossible()
        yield from self._call_at_random()

    def _run_gold(self) -> ProbeOutcome:
        for place, call in enumerate(self.task.gold):
            self.world.call(*call)
            if undo := self._now.take_over():
                self._writes[place] = undo
        self._writers = {self.task.gold[place].tool for place in self._writes}
        self._final_state = self.world.db.model_dump()
        return self._judge(GOLD, Right.ACCEPT, f"{len(self.task.gold)} calls")

    def _add_damage(self) -> Iterator[ProbeOutcome]:
        """Add one call to the gold script. The state to replay from is the one after it."""
        bystanders = Bystanders(self._first_state, self._final_state, self.task.gold, self.request)
        for name, tool in self.world.tool_functions.items():
            for call in bystanders.make_calls(name, tool):
                seen = self.world.call(*call)
                changed = self._now.find_changed()
                if not changed:
                    if reads_by_name(name) and not seen.error:
                        break
                    continue
                damaged = [] if seen.error else bystanders.list_damaged(self.world.dump_parts(changed))
                outcome = self._judge_damage(call, damaged) if damaged else None
                self._now.restore()
                if outcome is not None:
                    yield outcome
                    if outcome.conclusion is Conclusion.FALSE_ACCEPT:
                        break

    def _judge_damage(self, call: ScriptCall, damaged: Collection[Key]) -> ProbeOutcome:
        where = ", ".join(f"{key} of {collection}" for collection, key in islice(damaged, 3))
        reason = f"it changes {where}, which the request does not name"
        return self._judge(DAMAGE, Right.REJECT, str(call), reason)

    def _change_calls(self) -> Iterator[ProbeOutcome]:
        """Go back through the gold script, and leave out or change each call that writes."""
        omissions: dict[int, ProbeOutcome] = {}
        unchanging = set()
        for place in reversed(self._writes):
            self._now.go_back(self._writes[place])
            omissions[place] = self._replay(OMISSION, place)
            if self._is_accepted(omissions[place]) and self.world.db.model_dump() == self._final_state:
                unchanging.add(place)
            for changed in self._list_changed(place) if not self._is_accepted(omissions[place]) else ():
                yield self._replay(CHANGED, place, changed)
        self._now.restore()
        yield from self._decide(dict(sorted(omissions.items())), unchanging)

    def _replay(self, kind: str, place: int, instead: ScriptCall | None = None) -> ProbeOutcome:
        self._now.restore()
        if instead is not None:
            self.world.call(*instead)
        for call in self.task.gold[place + 1 :]:
            if call.tool in self._writers:
                self.world.call(*call)
        shown = str(self.task.gold[place]) + (f" → {instead}" if instead is not None else "")
        reason = "the request states the value" if instead is not None else ""
        return self._judge(kind, Right.REJECT, shown, reason, place=place)

    def _decide(
        self, omissions: Mapping[int, ProbeOutcome], unchanging: Collection[int]
    ) -> Iterator[ProbeOutcome]:
        """Tell false accepts from calls that the gold script may not need."""
        accepted = [place for place, outcome in omissions.items() if self._is_accepted(outcome)]
        grounds = OmissionGrounds(
            self.request, self.task.gold, self._writes, self._words_by_id if accepted else {},
            {entity.identifier: entity.fields for entity in list_entities(self._first_state)} if accepted else {},
            accepted, unchanging, self._find_unneeded_tools(accepted),
        )  # fmt: skip
        reasons = {place: grounds.find(place) for place in accepted}
        for place, outcome in omissions.items():
            if place not in reasons:
                yield outcome
            elif reason := reasons[place]:
                yield replace(outcome, conclusion=Conclusion.FALSE_ACCEPT, reason=reason)
            else:
                yield replace(outcome, conclusion=Conclusion.UNDECIDED, reason=grounds.explain_doubt(place))
        if len(accepted) > 1:
            shown = f"without calls {', '.join(map(str, accepted))}"
            outcome = self._run_without(accepted, UNNEEDED, shown)
            if self._is_accepted(outcome) and not any(reasons.values()):
                outcome = replace(
                    outcome,
                    conclusion=Conclusion.UNDECIDED,
                    reason="the gold script may not need any of them",
                )
            yield outcome

    def _find_unneeded_tools(self, accepted: Collection[int]) -> list[str]:
        """Return the tools of which every writing call can be left out at once."""
        tools = dict.fromkeys(self.task.gold[place].tool for place in accepted)
        calls = {tool: [each for each in self._writes if self.task.gold[each].tool == tool] for tool in tools}
        return [
            tool
            for tool, places in calls.items()
            if set(places) <= set(accepted) and self._is_accepted(self._run_without(places, UNNEEDED, tool))
        ]

    def _run_without(self, places: Collection[int], kind: str, shown: str) -> ProbeOutcome:
        self._start.restore()
        for place, call in enumerate(self.task.gold):
            if place not in places and call.tool in self._writers:
                self.world.call(*call)
        return self._judge(kind, Right.REJECT, shown)

    def _list_changed(self, place: int) -> Iterator[ScriptCall]:
        """Yield the call with another value for each number that the request states, as an exact one and once."""
        tool, arguments = self.task.gold[place]
        for name, value in arguments.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if is_number and value > 2 and self.request.numbers.count(float(value)) == 1:
                yield ScriptCall(tool, {**arguments, name: value - 1})

    def _change_hashes(self) -> Iterator[ProbeOutcome]:
        """Run the gold script as in processes with other hash seeds, and with other random numbers."""
        if not self.world.has_chance:
            return
        rewards = {}
        for salt in _SALTS:
            self.world.chance = salt
            self.world.salt_hashes(salt)
            rewards[salt] = self._run_without((), AGAIN, "").reward
        self.world.chance = 0
        self.world.salt_hashes(0)
        low = [salt for salt, reward in rewards.items() if reward is None or reward < 1]
        shown = (
            f"{len(low)} of {len(rewards)} other hash seeds and seeds of `random` change the reward of gold"
        )
        conclusion = Conclusion.FALSE_REJECT if low else Conclusion.RIGHT
        reason = "a tool uses `hash` or `random`" if low else ""
        yield ProbeOutcome(
            self.task.name, AGAIN, Right.ACCEPT, conclusion, 0.0 if low else 1.0, shown, reason
        )

    def _make_impossible(self) -> Iterator[ProbeOutcome]:
        """Run the gold script where something is missing that the request names and the gold script changes."""
        changed = find_changes(self._first_state, self._final_state)
        still_there = {entity.key for entity in list_entities(self._final_state)}
        named = [
            entity
            for entity in list_entities(self._first_state)
            if entity.key in changed & still_there and entity.is_named_in(self.request)
        ]
        for entity in named[:_MOST_IMPOSSIBLE]:
            self._start.restore()
            self.world.remove(entity.collection, entity.fields)
            for call in self.task.gold:
                self.world.call(*call)
            reason = "the request names it, the gold script changes it, and it does not exist"
            yield self._judge(IMPOSSIBLE, Right.REJECT, f"{entity.identifier} of {entity.collection}", reason)

    def _call_at_random(self) -> Iterator[ProbeOutcome]:
        """Call the tools of the gold script with ids of the state, none of them as the gold script does."""
        ids = [entity.identifier for entity in list_entities(self._first_state)]
        pool = [call for call in self.task.gold if call.arguments]
        for _ in range(_RANDOM_SCRIPTS if pool and ids else 0):
            self._start.restore()
            for _ in range(_RANDOM_CALLS):
                tool, arguments = self._random.choice(pool)
                mixed = {
                    name: self._random.choice(ids) if isinstance(value, str) else value
                    for name, value in arguments.items()
                }
                if (tool, mixed) not in pool:
                    self.world.call(tool, mixed)
            yield self._judge(RANDOM, Right.REJECT, f"{_RANDOM_CALLS} calls")

    def _judge(
        self, kind: str, right: Right, shown: str = "", reason: str = "", place: int | None = None
    ) -> ProbeOutcome:
        began = time.perf_counter()
        try:
            reward = self.world.verify()
        except Exception as error:  # noqa: BLE001 - the boundary: the verifier is of others
            failure = f"verify raised {type(error).__name__}: {error}"
            return ProbeOutcome(
                self.task.name, kind, right, Conclusion.FAILED, None, shown, failure, place=place
            )
        seconds = time.perf_counter() - began
        conclusion = judge(right, reward)
        reason = "" if conclusion is Conclusion.RIGHT else reason
        return ProbeOutcome(self.task.name, kind, right, conclusion, reward, shown, reason, seconds, place)

    @staticmethod
    def _is_accepted(outcome: ProbeOutcome) -> bool:
        return outcome.conclusion is Conclusion.FALSE_ACCEPT

    @cached_property
    def _words_by_id(self) -> dict[str, set[str]]:
        states = (self._first_state, self._final_state)
        return {entity.identifier: entity.find_words() for state in states for entity in list_entities(state)}
