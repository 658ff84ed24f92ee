"""The schema of an environment's task rows: `TaskData` in `task_data.py` beside its `app.py`.

Such a module imports only the standard library, pydantic and other environments' `task_data`, so that rows are checked
without the environment's own packages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from nemo_gym.failures import ConfigError
from nemo_gym.paths import search_roots
from nemo_gym.processes.worker_main import load_file
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import METADATA_KEY
from nemo_gym.rows.parts import read_task_data

FILE = "task_data.py"
_TYPE = "TaskData"
_CONTAINERS = (METADATA_KEY, "task_data")
"""Fields of a row whose members count as fields of the row itself."""


def load_task_data_schema(server_dir: Path) -> TypeAdapter[Any] | None:
    """Return the schema of an environment's rows; None if its folder has no `task_data.py`.

    Raises `ConfigError` if the module cannot be imported or has no type `TaskData`.
    """
    file = server_dir / FILE
    if not file.is_file():
        return None
    try:
        with _importable_servers():
            module = load_file(f"nemo_gym_task_data.{server_dir.name}", str(file))
            return TypeAdapter(getattr(module, _TYPE))
    except Exception as error:  # an author's module may raise anything
        raise ConfigError(
            f"{file} gives no schema of task rows: {type(error).__name__}: {error}",
            code="task_schema",
            remedy=f"Define a pydantic model `{_TYPE}` there, with imports of the standard library and pydantic only.",
        ) from error


def normalize_task_fields(row: AnyRow) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a row's task, and those that it has twice with different values.

    Members of `verifier_metadata` and `task_data` are fields like those of the row itself, which take precedence.
    """
    fields = read_task_data(row)
    conflicts = []
    for container in _CONTAINERS:
        members = fields.get(container)
        if isinstance(members, Mapping):
            del fields[container]
            conflicts += [key for key, value in members.items() if key in fields and fields[key] != value]
            fields = {**members, **fields}
    return fields, conflicts


@contextmanager
def _importable_servers() -> Iterator[None]:
    """Let modules import `resources_servers.<name>.task_data` below the search roots."""
    added = [str(root) for root in search_roots(Path.cwd()) if str(root) not in sys.path]
    sys.path += added
    try:
        yield
    finally:
        for path in added:
            sys.path.remove(path)
