"""Folders of tool tasks, as `general-agent` publishes them: a request, tools on a state, a gold script, a verifier.

    instruction.md   the user's words
    tools.py         `TaskDB(DB)`, `TaskTools(Tools)` with `@tool` methods, `verify(db) -> float`
    db.json          the state at the start
    gold.json        `[[tool, arguments], …]`, a script that fulfils the request
    task.toml        `[metadata]`, optional

The name of the folder is the task's id, because names in `task.toml` repeat. Nothing here runs a task's code
(`tool_world` does).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nemo_gym.config.problems import Location, Problems
from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import parse_json

CODE, STATE, GOLD, REQUEST, METADATA = "tools.py", "db.json", "gold.json", "instruction.md", "task.toml"
_NEEDED = (REQUEST, CODE, STATE, GOLD)


class ScriptCall(NamedTuple):
    """One call of a script."""

    tool: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.tool}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


@dataclass(frozen=True, slots=True)
class ToolTask:
    """The files of one task."""

    folder: Path
    request: str
    gold: tuple[ScriptCall, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.folder.name


def is_tool_task(folder: Path) -> bool:
    """Return whether `folder` has the files of a tool task."""
    return all((folder / name).is_file() for name in (CODE, STATE, GOLD))


def find_tool_tasks(root: Path) -> list[Path]:
    """Return the folders of the tool tasks in `root`, by name: `root` itself, or folders directly in it."""
    if is_tool_task(root):
        return [root]
    return [folder for folder in sorted(root.iterdir()) if is_tool_task(folder)] if root.is_dir() else []


def read_tool_tasks(root: Path) -> list[ToolTask]:
    """Read the tasks in `root`. Raises `ConfigErrors` with the problems of all of them, or `ConfigError` for none."""
    problems = Problems()
    folders = find_tool_tasks(root)
    if not folders:
        raise ConfigError(
            f"{root} has no tool tasks",
            code="no_tool_tasks",
            remedy=f"Name a folder whose folders have {', '.join(_NEEDED)}.",
        )
    tasks = [task for folder in folders if (task := read_tool_task(folder, problems)) is not None]
    problems.raise_if_any()
    return tasks


def read_tool_task(folder: Path, problems: Problems) -> ToolTask | None:
    """Read one task; None with a problem for each file that is missing or has another form."""
    before = len(problems.found)
    for name in _NEEDED:
        if not (folder / name).is_file():
            problems.add(Location(str(folder)), f"a tool task needs {name}, which is missing.")
    gold = _read_gold(folder / GOLD, problems) if (folder / GOLD).is_file() else ()
    metadata = _read_metadata(folder / METADATA, problems)
    if len(problems.found) > before:
        return None
    return ToolTask(folder, (folder / REQUEST).read_text(encoding="utf-8"), gold, metadata)


def _read_gold(file: Path, problems: Problems) -> tuple[ScriptCall, ...]:
    try:
        script = parse_json(file.read_bytes())
    except ValueError as error:
        problems.add(Location(str(file)), f"it is not JSON: {error}.")
        return ()
    calls: list[ScriptCall] = []
    for place, entry in enumerate(script if isinstance(script, list) else [script]):
        match entry:
            case [str() as tool, dict() as arguments]:
                calls.append(ScriptCall(tool, arguments))
            case _:
                problems.add(
                    Location(str(file)),
                    f"call {place} is not [tool, arguments].",
                    'Write [["tool", {"argument": 1}], …].',
                )
    return tuple(calls)


def _read_metadata(file: Path, problems: Problems) -> Mapping[str, Any]:
    if not file.is_file():
        return {}
    try:
        metadata = tomllib.loads(file.read_text(encoding="utf-8")).get("metadata", {})
    except tomllib.TOMLDecodeError as error:
        problems.add(Location(str(file)), f"it is not TOML: {error}.")
        return {}
    return metadata if isinstance(metadata, dict) else {}
