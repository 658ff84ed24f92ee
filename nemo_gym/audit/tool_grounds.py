"""Grounds on which an accepted script without a call is a false accept, and not a call that the gold did not need.

The verifier accepts the gold script without one of its writing calls. Either the verifier is blind there, or the call
was not asked for. A program cannot read the request; it can show that the request's own words need the call:

- only this call is about something that the request names (`Rent helmets`, and no other call is about helmets)
- the verifier needs no call of a whole tool whose work the request names
- the request wants all, every, each of something, and the verifier accepts one less, whichever it is
- the request wants all three of them, and there are exactly three such calls
- the request states the numbers of the call, or the number that the calls of its tool sum up to
- the request states a percentage, and the call's number is that share of a field of its entity

Without such grounds the outcome is undecided, and its reason says what speaks for a redundant call: the end state is
the same, or a later call replaces it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import Any

from nemo_gym.audit.request_words import RequestWords, find_words
from nemo_gym.audit.tool_entities import find_texts
from nemo_gym.sources.tool_tasks import ScriptCall

_ABOVE_SMALL = 2
"""Numbers up to this stand in many places by chance."""


@dataclass(slots=True)
class OmissionGrounds:
    """The gold script beside the words of its request."""

    request: RequestWords
    gold: Sequence[ScriptCall]
    writes: Collection[int]
    """The places of the calls that change the state."""
    words_by_id: Mapping[str, set[str]]
    """The words of each entity, at the start and after the gold script."""
    fields_by_id: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The fields of each entity at the start."""
    accepted: Collection[int] = ()
    """The calls that can be left out, one at a time."""
    unchanging: Collection[int] = ()
    """The calls without which the end state is the same."""
    unneeded_tools: Collection[str] = ()
    """The tools of which every writing call can be left out at once."""
    _about: dict[int, set[str]] = field(init=False)
    _counts: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self._about = {place: self._find_words(self.gold[place]) for place in self.writes}
        self._counts = Counter(word for words in self._about.values() for word in words)

    def find(self, place: int) -> str | None:
        """Return why the request needs the call at `place`; None if its words do not decide it."""
        if place in self.unchanging:
            is_unneeded = self.gold[place].tool in self.unneeded_tools
            return self._find_lost_share(place) if is_unneeded else None
        if reason := (
            self._find_lost_share(place)
            or self._find_lost_sum(place)
            or self._find_dictated_numbers(place)
            or self._find_percentage(place)
        ):
            return reason
        if self._find_replacement(place) is not None:
            return None
        return (
            self._find_unneeded_tool(place)
            or self._find_lost_word(place)
            or self._find_lost_number(place)
            or self._find_lost_one(place)
        )

    def explain_doubt(self, place: int) -> str:
        """Return why an accepted omission is undecided."""
        if place in self.unchanging:
            return "the end state is the same without it"
        later = self._find_replacement(place)
        if later is not None:
            return f"call {later} does the same again with other arguments, so this one may be redundant"
        return "no words of the request decide whether it asks for this call, so it may be redundant"

    def _find_words(self, call: ScriptCall) -> set[str]:
        return find_words(call.tool.replace("_", " ")).union(*self._list_arguments(call))

    def _list_arguments(self, call: ScriptCall) -> list[set[str]]:
        """Return the words of each argument, those of an id with its entity's."""
        return [
            find_words(text) | self.words_by_id.get(text, set())
            for value in call.arguments.values()
            for text in find_texts(value)
        ]

    def _find_lost_word(self, place: int) -> str | None:
        lost = {word for word in self._about[place] if self._counts[word] == 1}
        asked = sorted(self.request.asks_for(lost))
        return f"only this call is about {_quote(asked)}, which the request names" if asked else None

    def _find_dictated_numbers(self, place: int) -> str | None:
        numbers = [float(value) for value in self.gold[place].arguments.values() if _is_number(value)]
        if len(numbers) > _ABOVE_SMALL and self.request.dictates(numbers):
            return f"the request states its numbers: {', '.join(f'{number:g}' for number in numbers)}"
        return None

    def _find_unneeded_tool(self, place: int) -> str | None:
        tool = self.gold[place].tool
        named = sorted(find_words(tool.replace("_", " ")) & self.request.words)
        if tool in self.unneeded_tools and named:
            return f"the request names {_quote(named)}, and the verifier needs no call of {tool}"
        return None

    def _find_lost_share(self, place: int) -> str | None:
        siblings = [each for each in self._list_siblings(place) if each in self.accepted]
        words = find_words(self.gold[place].tool.replace("_", " "))
        if len(siblings) > 1 and self.request.asks_for_all(words):
            return f"the request asks for all of them, and any of {len(siblings)} such calls can be missing"
        return None

    def _find_lost_one(self, place: int) -> str | None:
        siblings = self._list_siblings(place)
        words = find_words(self.gold[place].tool.replace("_", " "))
        if self.request.asks_for_count(words, len(siblings)):
            return (
                f"the request asks for all {len(siblings)} of them, and there are {len(siblings)} such calls"
            )
        return None

    def _find_percentage(self, place: int) -> str | None:
        arguments = self.gold[place].arguments
        entities = {text: self.fields_by_id.get(text, {}) for text in find_texts(arguments)}
        wholes = {
            (identifier, name): float(value)
            for identifier, fields in entities.items()
            for name, value in fields.items()
            if _is_number(value) and find_words(name.replace("_", " ")) & self.request.words
        }
        for value in _read_numbers(self.gold[place]).values():
            for (identifier, name), whole in wholes.items():
                for share in self.request.percentages:
                    if isclose(value, share * whole, rel_tol=1e-6):
                        return f"the request states {share:.0%}, and {value:g} is that of `{name}` of {identifier}"
        return None

    def _find_lost_sum(self, place: int) -> str | None:
        siblings = self._list_siblings(place)
        total = Counter[str]()
        for each in siblings:
            total.update(_read_numbers(self.gold[each]))
        for name in _read_numbers(self.gold[place]) if len(siblings) > 1 else ():
            if total[name] in self.request.numbers:
                return f"the request states {total[name]:g}, the sum of `{name}` with this call"
        return None

    def _find_lost_number(self, place: int) -> str | None:
        needed = [
            _read_numbers(self.gold[at]) for at in self._list_siblings(place) if at not in self.accepted
        ]
        for name, value in _read_numbers(self.gold[place]).items():
            if value in self.request.numbers and any(numbers.get(name) == value for numbers in needed):
                return f"the request states {value:g}, and the verifier needs it of other calls"
        return None

    def _find_replacement(self, place: int) -> int | None:
        """Return a later call of the same tool with the same ids."""
        call = self.gold[place]
        same = {name: value for name, value in call.arguments.items() if value in self._ids(value)}
        for later in self._list_siblings(place):
            if later > place and same.items() <= self.gold[later].arguments.items() and same:
                return later
        return None

    def _ids(self, value: object) -> Collection[object]:
        return self.words_by_id if isinstance(value, str) else ()

    def _list_siblings(self, place: int) -> list[int]:
        return [each for each in self.writes if self.gold[each].tool == self.gold[place].tool]


def _read_numbers(call: ScriptCall) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in call.arguments.items()
        if _is_number(value) and value > _ABOVE_SMALL
    }


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _quote(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words[:3])
