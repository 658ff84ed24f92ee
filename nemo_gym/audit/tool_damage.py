"""Calls that damage an entity which has nothing to do with the request, to be added to a gold script.

A verifier that looks only where the request points accepts a script that cancels another customer's appointment. The
calls are made from a tool's parameters and the state: an id of an entity that neither the gold script nor the request
touches, ids that are linked with it, and another value for each of its fields that the tool sets.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from nemo_gym.audit.request_words import RequestWords
from nemo_gym.audit.tool_entities import Entity, Key, find_changes, find_texts, list_entities
from nemo_gym.sources.tool_tasks import ScriptCall

_TARGETS, _CONSIDERED = 4, 30
"""Entities that are tried of a collection for each parameter: the least related of the first ones."""
_MOST_VALUES = 20
_PREFIXES = ("new_", "to_", "from_", "target_", "updated_")


@dataclass(slots=True)
class Bystanders:
    """The entities that a request has nothing to do with, and calls that change one of them."""

    start: Mapping[str, Any]
    final: Mapping[str, Any]
    """The states before and after the gold script."""
    gold: Collection[ScriptCall]
    request: RequestWords
    _collections: dict[str, list[Entity]] = field(init=False, default_factory=dict)
    _targets: dict[str, list[Entity]] = field(init=False, default_factory=dict)
    """The unrelated entities of each collection."""
    _chosen: dict[str, list[Entity]] = field(init=False, default_factory=dict)
    _values: dict[str, list[Any]] = field(init=False, default_factory=dict)
    """Values of each field that was asked for."""
    keys: set[Key] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        named = {text for call in self.gold for text in find_texts(call.arguments)}
        changeable = {entity.key for entity in list_entities(self.start)} - find_changes(
            self.start, self.final
        )
        for entity in list_entities(self.final):
            self._collections.setdefault(entity.collection, []).append(entity)
            is_named = entity.identifier in named or entity.identifier in self.request.text
            if entity.key in changeable and not is_named:
                self.keys.add(entity.key)
                self._targets.setdefault(entity.collection, []).append(entity)

    def list_damaged(self, changes: Mapping[str, Any]) -> list[Key]:
        """Return the entities that differ from those after the gold script; none if one is related.

        `changes`: the collections of the state that may differ.
        """
        changed = find_changes(self.final, {**self.final, **changes})
        return sorted(changed) if changed <= self.keys else []

    def make_calls(self, name: str, tool: Callable[..., Any]) -> Iterator[ScriptCall]:
        """Yield calls of a tool, each with one unrelated entity as its target."""
        parameters = [each for each in inspect.signature(tool).parameters.values() if each.name != "self"]
        for parameter in parameters:
            for collection, targets in self._targets.items():
                if self._is_id_of(parameter.name, targets[0]):
                    for target in self._choose_targets(collection):
                        arguments = self._fill(parameters, parameter.name, target)
                        if arguments is not None:
                            yield ScriptCall(name, arguments)

    def _choose_targets(self, collection: str) -> list[Entity]:
        """Return a few unrelated entities of a collection, the least related first."""
        if collection not in self._chosen:
            self._chosen[collection] = sorted(
                self._targets[collection][:_CONSIDERED],
                key=lambda entity: len(entity.find_words() & self.request.words),
            )[:_TARGETS]
        return self._chosen[collection]

    def _is_id_of(self, parameter: str, entity: Entity) -> bool:
        """Return whether an argument of this name would be the id of `entity`, or one of its fields with an id."""
        stem = _strip(parameter).removesuffix("_id")
        collection = entity.collection.casefold()
        is_named_so = parameter.endswith("id") and collection.startswith(stem.rstrip("sy")) and stem != ""
        return is_named_so or (parameter.endswith("_id") and parameter in entity.fields)

    def _fill(
        self, parameters: Collection[inspect.Parameter], targeted: str, target: Entity
    ) -> dict[str, Any] | None:
        arguments: dict[str, Any] = {targeted: target.fields.get(targeted, target.identifier)}
        for parameter in parameters:
            if parameter.name == targeted:
                continue
            value = self._choose(parameter, target)
            if value is None and parameter.default is inspect.Parameter.empty:
                return None
            if value is not None:
                arguments[parameter.name] = value
        return arguments

    def _choose(self, parameter: inspect.Parameter, target: Entity) -> Any:
        """Return a value for another parameter: a linked id, or another value of the target's field; None for none."""
        name = parameter.name
        named = self._find_field(name, target)
        own = None if named is None else target.fields[named]
        if name.endswith("_id"):
            return own if isinstance(own, str) else self._find_linked(name, target)
        if isinstance(own, bool):
            return not own
        if isinstance(own, int | float):
            return own + 1
        others = [value for value in self._list_values(named or _strip(name)) if value != own]
        if isinstance(own, str) and others:
            return others[0]
        if parameter.default is not inspect.Parameter.empty:
            return None
        plain = {"str": "audit", "int": 1, "float": 1.0, "bool": False, "list[str]": []}
        kind = parameter.annotation
        named_kind = kind if isinstance(kind, str) else inspect.formatannotation(kind)
        return others[0] if others else plain.get(named_kind)

    def _list_values(self, name: str) -> list[Any]:
        """Return the first values of a field."""
        if name not in self._values:
            fields = (entity.fields for entities in self._collections.values() for entity in entities)
            values = (each[name] for each in fields if name in each)
            plain = dict.fromkeys(value for value in values if isinstance(value, str | int | float))
            self._values[name] = list(islice(plain, _MOST_VALUES))
        return self._values[name]

    @staticmethod
    def _find_field(parameter: str, target: Entity) -> str | None:
        """Return the field that a parameter sets: `new_status` sets `status`, or `health_status`."""
        stem = _strip(parameter)
        names = [parameter, stem, *(name for name in target.fields if name.endswith(f"_{stem}"))]
        return next((name for name in names if name in target.fields), None)

    def _find_linked(self, parameter: str, target: Entity) -> str | None:
        """Return the id of an entity for `parameter`: one that the target's own fields name, or any."""
        fitting = (each for each in self._collections.values() if self._is_id_of(parameter, each[0]))
        candidates = [entity.identifier for entities in fitting for entity in entities]
        linked = {text for name, value in target.fields.items() if name != "id" for text in find_texts(value)}
        return next((each for each in candidates if each in linked), next(iter(candidates), None))


def _strip(parameter: str) -> str:
    for prefix in _PREFIXES:
        if parameter.startswith(prefix):
            return parameter.removeprefix(prefix)
    return parameter
