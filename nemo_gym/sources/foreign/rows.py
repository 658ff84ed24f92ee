"""The task rows of a foreign environment. A row names the environment by content, so that a changed one is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.failures import ConfigError, GymError
from nemo_gym.names import FOREIGN_SOURCE_KEY
from nemo_gym.rows.compose import assign_agent, replace_params
from nemo_gym.rows.forms import TaskRow
from nemo_gym.sources.foreign.pool import HostPool
from nemo_gym.sources.foreign.process import HostProgram

_DESCRIBE_S = 120.0
_ORIGIN = ("package", "package_version", "license", "source")


@dataclass(frozen=True, slots=True)
class EnvironmentListing:
    """The description of an environment, and its tasks."""

    about: Mapping[str, Any]
    tasks: list[dict[str, Any]]

    @property
    def seats(self) -> int:
        return len(self.about.get("seats") or ()) or 1

    def build_rows(self, kind: str, agent: str | None, split: str | None, seed: int) -> list[TaskRow]:
        """Return a row for each task."""
        return [self._build_row(task, kind, agent, split, seed) for task in self.tasks]

    def _build_row(
        self, task: Mapping[str, Any], kind: str, agent: str | None, split: str | None, seed: int
    ) -> TaskRow:
        data = task.get("data") or {}
        about = {
            "kind": kind,
            "name": self.about["name"],
            "version": self.about["version"],
            "digest": self.about["digest"],
            **{name: self.about.get(name) for name in _ORIGIN},
            "split": task.get("split") or split,
            "task": task["id"],
            "seed": data.get("seed", seed),
            "data": data,
        }
        row: dict[str, Any] = {
            "task_id": f"{kind}:{task['id']}",
            FOREIGN_SOURCE_KEY: {name: value for name, value in about.items() if value is not None},
        }
        given = task.get("prompt") or []
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
        tools = {"tools": task["tools"]} if task.get("tools") else {}
        made = replace_params(TaskRow(row), {"input": messages, **tools})
        return made if agent is None else assign_agent(made, agent)


async def list_environment(
    program: HostProgram, most: int, split: str | None = None, seed: int = 0
) -> EnvironmentListing:
    """Start a host, and return what its environment says of itself and up to `most` tasks. Raises `ConfigError`."""
    pool = HostPool(program, 1)
    try:
        host = await pool.acquire()
        about = await host.ask("describe", {}, deadline_s=_DESCRIBE_S)
        tasks: list[dict[str, Any]] = []
        cursor: int | None = 0
        while cursor is not None and len(tasks) < most:
            fields = {"cursor": cursor, "limit": most - len(tasks), "split": split, "seed": seed}
            answer = await host.ask("tasks", fields, deadline_s=_DESCRIBE_S)
            tasks += answer["tasks"]
            cursor = answer["cursor"] if answer["tasks"] else None
    except GymError as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"{program.kind}:{program.name} cannot be used: {error.failure.message}",
            code=error.failure.code,
            remedy=error.failure.remedy,
        ) from error
    finally:
        await pool.close()
    return EnvironmentListing(about, tasks[:most])


def read_listing(program: HostProgram, most: int, split: str | None, seed: int) -> EnvironmentListing:
    """Do the same as `list_environment`, for a command."""
    return asyncio.run(list_environment(program, most, split, seed))


def write_rows(path: Path, rows: list[TaskRow]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
