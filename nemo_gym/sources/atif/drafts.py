"""The items of a row in steps: which item belongs to which step, and in which place of the step.

A call's answer is one step of the agent: reasoning, a message, tool calls. The outputs of its tools are in the step of
their calls, even if other items came between. Without token records, an answer ends where an output follows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from nemo_gym.tokens.records import CARRIED_FIELDS, RECORD_FIELD

Item = Mapping[str, Any]


class StepPart(IntEnum):
    """The place of an item in its step, in the order in which steps are read."""

    REASONING = 0
    MESSAGE = 1
    CALL = 2
    OUTPUT = 3


_PLACES = {
    "reasoning": StepPart.REASONING,
    "message": StepPart.MESSAGE,
    "function_call": StepPart.CALL,
    "function_call_output": StepPart.OUTPUT,
}
_SOURCES = {"assistant": "agent", "user": "user", "system": "system", "developer": "system"}


@dataclass(slots=True)
class Draft:
    """A step."""

    part: str
    """`input` or `output`."""
    source: str
    items: list[tuple[StepPart, int, Item]] = field(default_factory=list)
    """StepPart in the step, index in the part, item."""
    is_opaque: bool = False
    """Its only item has no counterpart in the format."""

    def has(self, *places: StepPart) -> bool:
        return any(place in places for place, _, _ in self.items)

    def ordered(self) -> list[tuple[StepPart, int, Item]]:
        return sorted(self.items, key=lambda each: (each[0], each[1]))


@dataclass(slots=True)
class Drafts:
    """The steps of a row, in order."""

    steps: list[Draft] = field(default_factory=list)
    hidden: list[tuple[int, Item]] = field(default_factory=list)
    """Index and item of the calls beside the main conversation, of which a row has only the tokens."""
    _calls: dict[str, Draft] = field(default_factory=dict)
    _is_ended: bool = True

    def add_all(self, part: str, items: Sequence[Item]) -> None:
        """Add the items of a part, in order."""
        self._is_ended = True
        for index, item in enumerate(items):
            if part == "output" and is_hidden(item):
                self.hidden.append((index, item))
            else:
                self._add(part, index, item)

    def _add(self, part: str, index: int, item: Item) -> None:
        place = _find_place(item)
        source = _SOURCES.get(str(item.get("role")), "agent") if place is StepPart.MESSAGE else "agent"
        if place is None or source != "agent":
            self.steps.append(Draft(part, source, [(place or StepPart.MESSAGE, index, item)], place is None))
            self._is_ended = True
            return
        draft = self._find_draft(part, place, item)
        draft.items.append((place, index, item))
        if place is StepPart.CALL:
            self._calls[str(item.get("call_id"))] = draft
        if place is not StepPart.OUTPUT:
            self._is_ended = not CARRIED_FIELDS.isdisjoint(item)

    def _find_draft(self, part: str, place: StepPart, item: Item) -> Draft:
        if place is StepPart.OUTPUT:
            called = self._calls.get(str(item.get("call_id")))
            if called is not None and called.part == part:
                return called
            self.steps.append(Draft(part, "system"))  # an output without a call
            self._is_ended = True
            return self.steps[-1]
        last = self.steps[-1] if self.steps and not self._is_ended else None
        later = [each for each in StepPart if each > place] + (
            [StepPart.MESSAGE] if place is StepPart.MESSAGE else []
        )
        if last is None or last.has(*later):
            self.steps.append(Draft(part, "agent"))
        return self.steps[-1]


def _find_place(item: Item) -> StepPart | None:
    kind = item.get("type", "message" if "role" in item else None)
    place = _PLACES.get(str(kind))
    if place is StepPart.MESSAGE and item.get("role") not in _SOURCES:
        return None
    return place


def is_hidden(item: Item) -> bool:
    """Return whether an item is a call beside the main conversation: reasoning without text, with a token record."""
    is_empty = not (item.get("summary") or item.get("content") or item.get("encrypted_content"))
    return item.get("type") == "reasoning" and is_empty and RECORD_FIELD in item


def group_hidden(hidden: list[tuple[int, Item]]) -> Iterator[list[tuple[int, Item]]]:
    """Yield the hidden calls by conversation: a call goes on from the one that is its base."""
    groups: list[list[tuple[int, Item]]] = []
    known: dict[str, list[tuple[int, Item]]] = {}
    for index, item in hidden:
        record = item[RECORD_FIELD] if isinstance(item[RECORD_FIELD], Mapping) else {}
        group = known.get(str(record.get("base")))
        if group is None:
            group = []
            groups.append(group)
        group.append((index, item))
        known[str(record.get("sequence"))] = group
    yield from groups
