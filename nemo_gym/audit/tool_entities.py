"""The entities of a tool task's state: records with an id, to which calls refer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_gym.audit.request_words import find_words

_LONGEST_NAME = 60
"""Longer texts are descriptions, whose words say little of what an entity is."""

Key = tuple[str, str]
"""The collection and the id of an entity."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A record of the state."""

    collection: str
    identifier: str
    fields: Mapping[str, Any]

    @property
    def key(self) -> Key:
        return self.collection, self.identifier

    def find_words(self) -> set[str]:
        """Return the words of its id, names and kinds, without those of records inside it."""
        values = (value if isinstance(value, list) else [value] for value in self.fields.values())
        texts = (text for part in values for text in part if isinstance(text, str))
        return find_words(" ".join(text for text in texts if len(text) <= _LONGEST_NAME))


def list_entities(state: Mapping[str, Any]) -> list[Entity]:
    """Return the records with an id in the collections of `state`, in order."""
    return [entity for name, value in state.items() for entity in _read_collection(name, value)]


def _read_collection(name: str, value: Any) -> Iterator[Entity]:
    records = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for record in records:
        if isinstance(record, dict) and (identifier := _read_identifier(record)) is not None:
            yield Entity(name, identifier, record)


def _read_identifier(record: Mapping[str, Any]) -> str | None:
    """Return the field `id`, or else the first whose name ends in `_id`, or else the first field; None if no text."""
    if isinstance(named := record.get("id"), str):
        return named
    names = [*(name for name in record if name.endswith("_id")), *list(record)[:1]]
    return next((record[name] for name in names if isinstance(record.get(name), str)), None)


def find_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[Key]:
    """Return the entities of `before` that `after` has otherwise, or no more."""
    different = {name: value for name, value in before.items() if value != after.get(name)}
    later: dict[Key, list[Mapping[str, Any]]] = {}
    for entity in list_entities({name: after.get(name) for name in different}):
        later.setdefault(entity.key, []).append(entity.fields)
    return {
        entity.key for entity in list_entities(different) if entity.fields not in later.get(entity.key, ())
    }


def find_texts(value: Any) -> Iterator[str]:
    """Yield the texts in a value, also in lists and objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from find_texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from find_texts(part)
