"""Task rows made of task folders, and the folders that were refused, by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.names import AGENT_TIMEOUT_KEY, FOLDER_DIGEST_KEY, TASK_FOLDER_KEY
from nemo_gym.rows.compose import replace_params
from nemo_gym.rows.forms import TaskRow
from nemo_gym.sandbox.providers.rootless.debian import SUITE
from nemo_gym.sources.task_folders.dataset import FolderDataset
from nemo_gym.sources.task_folders.folder import FolderTask
from nemo_gym.sources.task_folders.requirements import ROOTLESS, Terms, find_refusals, list_deviations

SHELL_TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "name": "bash",
    "description": "Run a bash command in the task's sandbox, and return its output and exit status.",
    "parameters": {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command."},
            "timeout_s": {"type": "number", "description": "Seconds until it is ended; by default 120."},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    "strict": False,
}


@dataclass(slots=True)
class FolderRows:
    """The rows of a dataset."""

    rows: list[TaskRow] = field(default_factory=list)
    refused: dict[str, list[str]] = field(default_factory=dict)
    """Name of a folder → the reasons why it cannot run."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Reason → folders that have it."""

    def refuse(self, name: str, reasons: Sequence[str], messages: Sequence[str]) -> None:
        self.refused[name] = list(messages)
        self.reasons.update(set(reasons))

    def count(self) -> str | None:
        """Return the number of the folders that were refused, with their reasons; None if there is none."""
        if not self.refused:
            return None
        counted = ", ".join(f"{count} {reason}" for reason, count in self.reasons.most_common())
        total = len(self.rows) + len(self.refused)
        return f"{len(self.refused)} of {total} task folders are refused ({counted})"

    def describe(self) -> str | None:
        """Return the number of the folders that were refused, and why the first is; None if there is none."""
        if (counted := self.count()) is None:
            return None
        first, messages = next(iter(self.refused.items()))
        return f"{counted}. {first}: {'; '.join(messages)}"


def build_rows(dataset: FolderDataset, terms: Terms) -> FolderRows:
    """Return a row for every folder that can run on `terms`, in the order of the dataset."""
    found = FolderRows()
    for task in dataset.load():
        if not isinstance(task, FolderTask):
            found.refuse(task.root.name, [task.reason], [task.failure.message])
            continue
        refusals = find_refusals(task, terms)
        if refusals:
            reasons = [refusal.reason for refusal in refusals]
            found.refuse(task.name, reasons, [f"{each.field}: {each.message}" for each in refusals])
        else:
            found.rows.append(build_row(task, dataset, terms))
    return found


def build_row(task: FolderTask, dataset: FolderDataset, terms: Terms) -> TaskRow:
    """Return the row of a task. Its metadata has what tells one version of a folder from another."""
    settings, step = task.settings, task.steps[0]
    gym = dataset.gym
    about = {
        "folder": task.root.relative_to(dataset.root.resolve()).as_posix(),
        "name": settings.task.name if settings.task is not None else task.name,
        "dataset": dataset.name,
        "version": settings.task.version if settings.task is not None else None,
        "source": settings.source or gym.source,
        "license": _read_text(settings.metadata, "license") or gym.license,
        "split": _read_text(settings.metadata, "split") or gym.type,
        "domain": gym.domain,
        "verified": gym.verified,
        "base": f"debian:{SUITE}" if terms.provider == ROOTLESS else None,
        "deviations": list_deviations(task, terms),
        "steps": len(settings.steps or ()),
        "files": task.digest_outer_files() or None,
    }
    timeout_s = settings.find_agent(step).timeout_sec
    row: dict[str, Any] = {
        "task_id": task.name,
        FOLDER_DIGEST_KEY: task.digest,
        TASK_FOLDER_KEY: {name: value for name, value in about.items() if value is not None},
    }
    if timeout_s is not None:
        row[AGENT_TIMEOUT_KEY] = timeout_s
    given = [{"role": "user", "content": task.instruction(step)}]
    return replace_params(TaskRow(row), {"input": given, "tools": [SHELL_TOOL]})


def write_rows(path: Path, found: FolderRows, where: Path) -> None:
    """Write the rows to a file. Raises ConfigError with the refusals if there is no row."""
    if not found.rows:
        raise ConfigError(
            f"No task at {where} can run: {found.describe()}",
            code="no_tasks",
            remedy="`+network=none` runs tasks without their network; `+sandbox_provider=docker` uses containers.",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in found.rows))


def _read_text(metadata: dict[str, Any], key: str) -> str | None:
    value = metadata.get(key)
    return value if isinstance(value, str) else None
