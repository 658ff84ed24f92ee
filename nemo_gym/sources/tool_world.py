"""A tool task in motion: its state, its tools and its verifier, in the process that imports the task's code.

    world = ToolWorld(folder)
    start = Snapshot(world)
    seen = world.call("refill_salt", {"plow_id": "PLW-004"})    # seen.output, or seen.error
    world.verify()                                             # 0.0 to 1.0
    start.restore()

The code of a task is of others and runs with the rights of its process: audits and servers give it a worker process of
its own, whose hash seed is fixed (`nemo_gym.processes.workers`). It imports `general_agent.tools`, of which no package
exists; a stand-in with the same three names takes its place.

A `Snapshot` restores the state in place, without a copy of objects that did not change: thousands of scripts run on
one load of a task.
"""

from __future__ import annotations

import hashlib
import random
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import compress, count
from operator import ne
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from pydantic import BaseModel

from nemo_gym.failures import ConfigError
from nemo_gym.sources.tool_tasks import CODE, STATE

_MARK = "__tool_of_a_task__"
_PACKAGE = "general_agent"
_HASH = re.compile(r"\bhash\(")
_PLAIN = frozenset({str, int, float, bool, type(None)})


class DB(BaseModel):
    """The base of a task's state."""


class Tools:
    """The base of a task's tools."""

    def __init__(self, db: DB) -> None:
        self.db = db


def tool(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a method of `Tools` as a tool of the policy."""
    setattr(function, _MARK, True)
    return function


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The answer of a tool: its output, or the error that it raised."""

    output: Any = None
    error: str | None = None


class ToolWorld:
    """The state, tools and verifier of the task in `folder`.

    Raises `ConfigError` if the code cannot be imported, lacks a part, or refuses `db.json`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.chance = 0
        """The seed of `random` before each call: a script's outcome does not depend on the scripts before it."""
        self._module = _import_code(folder / CODE)
        code = (folder / CODE).read_text(encoding="utf-8")
        self._draws = "random" in code
        self.has_chance = self._draws or _HASH.search(code) is not None
        """True if the code uses `random`, or `hash`, which differs between processes."""
        try:
            parts = [getattr(self._module, name) for name in ("TaskDB", "TaskTools", "verify")]
            self.db: BaseModel = parts[0].model_validate_json((folder / STATE).read_bytes())
            self.tools: Any = parts[1](self.db)
        except (AttributeError, ValueError) as error:
            raise _build_unusable_error(folder, error) from error
        self._verify = parts[2]
        members = ((name, getattr(parts[1], name)) for name in dir(parts[1]) if not name.startswith("__"))
        self.tool_functions: dict[str, Callable[..., Any]] = {
            name: member for name, member in members if getattr(member, _MARK, False)
        }

    def call(self, name: str, arguments: Mapping[str, Any]) -> ToolOutput:
        """Call a tool. Its exceptions are observations, as the policy sees them."""
        function = self.tool_functions.get(name)
        if function is None:
            return ToolOutput(error=f"there is no tool {name!r}")
        if self._draws:
            random.seed(self.chance)
        try:
            return ToolOutput(function(self.tools, **arguments))
        except Exception as error:  # noqa: BLE001 - the boundary: every exception of a tool is its answer
            return ToolOutput(error=f"{type(error).__name__}: {error}")

    def remove(self, collection: str, fields: Mapping[str, Any]) -> None:
        """Remove the record with these fields from a collection of the state."""
        records = getattr(self.db, collection)
        if isinstance(records, dict):
            for key in [key for key, record in records.items() if _dump(record) == fields]:
                del records[key]
        else:
            records[:] = [record for record in records if _dump(record) != fields]

    def verify(self) -> float:
        """Return the reward of the present state."""
        return float(self._verify(self.db))

    def salt_hashes(self, salt: int) -> None:
        """Let the task's `hash` of texts be that of a process with another hash seed. 0 brings Python's own back."""
        if salt:
            vars(self._module)["hash"] = partial(_hash_salted, salt)
        else:
            vars(self._module).pop("hash", None)

    @property
    def parts(self) -> Iterator[tuple[str, object]]:
        """Everything that calls can change: the state's fields by name; the tools' and the module's data without."""
        yield from vars(self.db).items()
        yield "", self.db
        yield "", self.tools
        for name, value in vars(self._module).items():
            if not name.startswith("__") and isinstance(value, list | dict | set):
                yield "", value

    def dump_parts(self, names: Set[str]) -> dict[str, Any]:
        """Return the fields of the state with these names as JSON; all fields, if a part without a name is there."""
        return self.db.model_dump(include=None if "" in names else {*names})


def _dump(record: object) -> object:
    return record.model_dump() if isinstance(record, BaseModel) else record


def _import_code(file: Path) -> ModuleType:
    """Import a task's code as a module of its own, with the stand-in for `general_agent.tools`."""
    _add_stand_in()
    module = ModuleType(f"tool_task_{file.parent.name}")
    module.__file__ = str(file)
    sys.modules[module.__name__] = module  # pydantic looks up annotations there
    try:
        code = compile(file.read_bytes(), str(file), "exec", dont_inherit=True)  # without our `annotations`
        exec(code, module.__dict__)
    except Exception as error:
        raise _build_unusable_error(file.parent, error) from error
    finally:
        del sys.modules[module.__name__]
    return module


def _hash_salted(salt: int, value: object) -> int:
    digest = hashlib.blake2b(repr(value).encode(), key=salt.to_bytes(8), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def _add_stand_in() -> None:
    if _PACKAGE in sys.modules:
        return
    package, module = ModuleType(_PACKAGE), ModuleType(f"{_PACKAGE}.tools")
    for name, part in {"DB": DB, "Tools": Tools, "tool": tool}.items():
        setattr(module, name, part)
    cast(Any, package).tools = module
    sys.modules |= {_PACKAGE: package, module.__name__: module}


def _build_unusable_error(folder: Path, error: Exception) -> ConfigError:
    return ConfigError(
        f"the tool task in {folder} cannot be loaded: {type(error).__name__}: {error}",
        code="tool_task_unusable",
        remedy=f"{CODE} needs TaskDB, TaskTools and verify(db), and {STATE} must fit TaskDB.",
    )


class Snapshot:
    """The state of a world, which `restore` brings back. It keeps shallow copies of all mutable objects."""

    def __init__(self, world: ToolWorld) -> None:
        self._live: list[Any] = []
        """Each mutable object."""
        self._copies: list[Any] = []
        """A copy of each, in the same order: all comparisons are one pass in C."""
        self._parts: list[str] = []
        """The part of the world that each belongs to."""
        self._seen: dict[int, object] = {}
        for name, value in world.parts:
            self._keep([value], name)

    def duplicate(self) -> Snapshot:
        """Return another snapshot of the same state, without a walk through it."""
        other = copy(self)
        other._live, other._parts, other._seen = self._live.copy(), self._parts.copy(), self._seen.copy()
        other._copies = [kept.copy() for kept in self._copies]
        return other

    def restore(self) -> None:
        """Bring the state back."""
        for place in self._list_changed():
            _refill(self._live[place], self._copies[place])

    def find_changed(self) -> set[str]:
        """Return the names of the world's parts that have changed since; the empty name for one without a name."""
        return {self._parts[place] for place in self._list_changed()}

    def take_over(self) -> Undo:
        """Make the present state the one to restore. The answer is empty if nothing has changed."""
        undo = []
        for place in self._list_changed():
            live, kept = self._live[place], self._copies[place]
            undo.append((kept, kept.copy()))
            _refill(kept, live)
            self._keep(live.values() if isinstance(live, dict) else live, self._parts[place])
        return undo

    def _list_changed(self) -> list[int]:
        """Return the places of the objects that are not as they were."""
        return list(compress(count(), map(ne, self._live, self._copies)))

    def go_back(self, undo: Undo) -> None:
        """Make the state before a `take_over` the one to restore; the last one first."""
        for kept, before in undo:
            _refill(kept, before)

    def _keep(self, roots: Iterable[object], part: str) -> None:
        """Copy every mutable object that can be reached from `roots` and is new. They belong to `part`."""
        left: list[Any] = list(roots)
        while left:
            value = left.pop()
            if type(value) in _PLAIN or id(value) in self._seen:
                continue
            self._seen[id(value)] = value
            if isinstance(value, tuple | frozenset):
                left += value
            elif isinstance(value, dict | list | set | deque):
                self._live.append(value)
                self._copies.append(value.copy())
                left += value.values() if isinstance(value, dict) else value
            elif not isinstance(value, type | ModuleType):
                left.append(getattr(value, "__dict__", None))
                left.append(getattr(value, "__pydantic_private__", None))
        self._parts += [part] * (len(self._live) - len(self._parts))


Undo = list[tuple[Any, Any]]
"""Copies of a snapshot, and their contents before."""


def _refill(container: Any, content: Any) -> None:
    container.clear()
    container.extend(content) if isinstance(container, list | deque) else container.update(content)
