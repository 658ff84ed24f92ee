"""The entities of a tool task's state: records with an id, to which calls refer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_gym.audit.request_words import RequestWords, find_words

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

    def is_named_in(self, request: RequestWords) -> bool:
        """Return whether the request has its id or its name."""
        names = (self.identifier, *(self.fields.get(key) for key in ("name", "title", "label")))
        return any(isinstance(name, str) and len(name) > 2 and request.quotes(name) for name in names)

    def find_words(self) -> set[str]:
        """Return the words of its id, names and kinds, without those of records inside it."""
        values = (value if isinstance(value, list) else [value] for value in self.fields.values())
        texts = (text for part in values for text in part if isinstance(text, str))
        return find_words(" ".join(text for text in texts if len(text) <= _LONGEST_NAME))


def list_entities(state: Mapping[str, Any]) -> list[Entity]:
    """Return the records with an id in the collections of `state`, in order."""
    return [entity for name, value in state.items() for entity in _read_collection(name, value)]


def _read_collection(name: str, value: Any) -> Iterator[Entity]:
    for record in _read_records(value).values():
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
    earlier: dict[str, list[Any]] = {}
    later: dict[str, list[Any]] = {}
    for name, value in before.items():
        if value != after.get(name):
            olds, news = _read_records(value), _read_records(after.get(name))
            places = [place for place in olds | news if olds.get(place) != news.get(place)]
            earlier[name] = [olds.get(place) for place in places]
            later[name] = [news.get(place) for place in places]
    moved: dict[Key, list[Mapping[str, Any]]] = {}
    for entity in list_entities(later):
        moved.setdefault(entity.key, []).append(entity.fields)
    return {entity.key for entity in list_entities(earlier) if entity.fields not in moved.get(entity.key, ())}


def _read_records(value: Any) -> dict[Any, Any]:
    """Return the records of a collection by their places."""
    return value if isinstance(value, dict) else dict(enumerate(value if isinstance(value, list) else ()))


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
