"""The facts of a run: its models, environments, sampling and tags; and the keys in which runs differ.

All of it is in the identity of a manifest. Other programs may have written one, so every member may have any form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nemo_gym.rollouts.output.manifest import Change
from nemo_gym.rows.parts import read_params

_MODEL, _AGENT, _RESOURCES, _EPISODES = (
    "responses_api_models",
    "responses_api_agents",
    "resources_servers",
    "environment_servers",
)
_NOT_COMPARED = ("code.files",)
"""Files of code are many; their version and commit tell that they differ."""
_PARTS = ("code", "engines", "datasets")
"""Members of an identity that the shards of one run may lack, or have others of."""
_ABSENT = "(absent)"


class RunFacts(NamedTuple):
    """The facts that the identity of a run tells."""

    models: tuple[str, ...] = ()
    """The names of the models that its agents ask, or of all models if no agent names its server."""
    environments: tuple[str, ...] = ()
    """The names of the environments that its agents attempt."""
    sampling: Mapping[str, Any] = {}
    """The sampling parameters of the command line, which hold for every row."""
    tags: tuple[str, ...] = ()
    changed: tuple[Change, ...] = ()
    """The settings that were others for earlier rows, apart from code, engines and tasks, of which rows have marks."""

    @property
    def model(self) -> str | None:
        """Return the name of the model; None if there is none, or several."""
        return self.models[0] if len(self.models) == 1 else None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON."""
        return {
            "models": list(self.models),
            "environments": list(self.environments),
            "sampling": dict(self.sampling),
            "tags": list(self.tags),
            "changed": list(map(str, self.changed)),
        }


class KeyDifference(NamedTuple):
    """A key of the configuration in which runs differ."""

    key: str
    values: tuple[str, ...]
    """The value of each run, in the order of the runs; `(absent)` where it has none."""


def read_facts(identity: object, starts: object = None) -> RunFacts:
    """Return the facts in an identity; none for another form. `starts`: the starts of its manifest.

    The tags are those of all starts. Models that answered before a change are models of the run too.
    """
    config = _read_object(_read_object(identity).get("config"))
    sampling = read_params(_read_object(identity))
    starts = [*map(_read_object, starts)] if isinstance(starts, list) else []
    tags = (_read_object(start.get("settings")).get("tags") for start in starts)
    changed = tuple(_find_changes(starts))
    earlier = (str(change.before) for change in changed if _MODEL_FIELD.fullmatch(change.field))
    return RunFacts(
        tuple(dict.fromkeys((*earlier, *_find_models(config)))),
        tuple(_find_environments(config)),
        sampling,
        tuple(dict.fromkeys(str(tag) for own in tags if isinstance(own, list) for tag in own)),
        changed,
    )


_MODEL_FIELD = re.compile(rf"config\..+\.{_MODEL}\..+\.model")


def _find_changes(starts: Iterable[Mapping[str, Any]]) -> Iterator[Change]:
    for start in starts:
        changes = start.get("changes") if start.get("finished_before") else None
        for change in changes if isinstance(changes, list) else ():
            if isinstance(change, list) and len(change) == 3 and isinstance(change[0], str):
                found = Change(*change)
                if not (found.is_of_maker or found.is_of_tasks or found.extends):
                    yield found


def find_differences(identities: Sequence[object]) -> list[KeyDifference]:
    """Return the keys in which the identities of runs differ, in their order.

    A part that a run lacks as a whole, such as a server, is one key.
    """
    return [
        KeyDifference(key.removeprefix("config."), values)
        for key, values in _compare("", [*map(_read_object, identities)])
    ]


def build_common_identity(identities: Sequence[object]) -> dict[str, Any]:
    """Return the identity that runs have in common which differ in tasks, repeats, code and engines only."""
    first = _read_object(identities[0]) if identities else {}
    return {key: value for key, value in first.items() if key not in _PARTS}


def find_other_settings(identities: Sequence[object]) -> list[KeyDifference]:
    """Return the keys of `find_differences` that are neither of tasks nor of their repeats, code or engines.

    Runs with such keys are not parts of one run: their rollouts of a task are not alike.
    """
    return [
        KeyDifference(key.removeprefix("config."), values)
        for key, values in _compare("", [*map(_read_object, identities)])
        if key not in _PARTS and not Change(key, None, None).is_of_part
    ]


def _compare(place: str, values: Sequence[object]) -> Iterator[tuple[str, tuple[str, ...]]]:
    if place in _NOT_COMPARED or all(value == values[0] for value in values):
        return
    parts = [_list_parts(value) for value in values]
    if not all(part is not None for part in parts):
        yield place, tuple(map(_show, values))
        return
    for name in dict.fromkeys(name for part in parts for name in part or {}):
        yield from _compare(
            f"{place}.{name}".lstrip("."), [(part or {}).get(name, _ABSENT) for part in parts]
        )


def _list_parts(value: object) -> Mapping[str, Any] | None:
    """Return the members of an object or of a list of objects; None for another value."""
    if isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        return {str(number): item for number, item in enumerate(value)}
    return value if isinstance(value, Mapping) else None


def _show(value: object) -> str:
    if _list_parts(value):
        return "(present)"
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)


def _find_models(config: Mapping[str, Any]) -> Iterable[str]:
    models = dict(_list_options(config, _MODEL))
    asked = [
        str(_read_object(options.get("model_server")).get("name"))
        for _, options in _list_options(config, _AGENT)
    ]
    named = [models[name] for name in dict.fromkeys(asked) if name in models] or [*models.values()]
    return dict.fromkeys(str(options["model"]) for options in named if options.get("model"))


def _find_environments(config: Mapping[str, Any]) -> Iterable[str]:
    agents = dict(_list_options(config, _AGENT))
    names = (_read_object(options.get("resources_server")).get("name") for options in agents.values())
    attempted = [str(name or agent) for name, agent in zip(names, agents, strict=True)]
    return dict.fromkeys((*attempted, *(name for name, _ in _list_options(config, _EPISODES))))


def _list_options(config: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the name and the options of each server of a kind."""
    for name, block in config.items():
        for options in _read_object(_read_object(block).get(kind)).values():
            yield str(name), _read_object(options)


def _read_object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
