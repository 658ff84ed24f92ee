"""The facts by which two engines are told apart: what they say of a model, and their versions.

Addresses, start times and permissions are none of them, because a restart of the same engine changes them. A fact that
an engine does not tell is left out, and then says nothing about a difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from nemo_gym.config.secrets import hide_in_text
from nemo_gym.json_objects import object_in

Fact: TypeAlias = str | int | float | bool
EngineFacts: TypeAlias = dict[str, Fact | list[Fact]]
"""By name; a list, in order, if replicas differ."""

_OF_MODEL: Final = ("id", "root", "parent", "owned_by", "max_model_len")
"""Members of an entry of `/v1/models`: the name, the weights, the base of an adapter, the program, the context."""
_MEASURES: Final = "meta"
"""The member in which llama.cpp tells the sizes of the weights, which differ by quantization."""
_LONGEST: Final = 300
"""Characters of a fact."""


def describe_engines(
    models: Iterable[Mapping[str, Any]],
    versions: Iterable[bytes | None],
    model: str | None,
    secrets: Iterable[str],
) -> EngineFacts:
    """Return the facts of the replicas of an engine.

    `models` are the entries of their lists, of which those of `model` count; `versions` are the answers of their
    `/version`. `secrets` are hidden, in case that an engine repeats them.
    """
    hidden = frozenset(secrets)
    found: dict[str, set[Fact]] = {}
    for entry in (entry for entry in models if entry.get("id") == model):
        for name in _OF_MODEL:
            _add(found, name, entry.get(name), hidden)
        measures = entry.get(_MEASURES)
        for name, value in measures.items() if isinstance(measures, Mapping) else ():
            _add(found, f"{_MEASURES}_{name}", value, hidden)
    for body in versions:
        _add(found, "version", (object_in(body) or {}).get("version") if body else None, hidden)
    return {name: _together(values) for name, values in sorted(found.items())}


def _add(found: dict[str, set[Fact]], name: str, value: object, secrets: frozenset[str]) -> None:
    if isinstance(value, str) and 0 < len(value) <= _LONGEST:
        found.setdefault(name, set()).add(hide_in_text(value, secrets))
    elif isinstance(value, int | float):
        found.setdefault(name, set()).add(value)


def _together(values: set[Fact]) -> Fact | list[Fact]:
    ordered = sorted(values, key=lambda value: (str(type(value)), value))
    return ordered[0] if len(ordered) == 1 else ordered
