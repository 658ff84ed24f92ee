"""The check of task rows by environments that do not run: the same models as in a run, from the file of the server.

    with TaskChecks(config.servers, config.data) as checks:
        messages = checks.find_faults("my_agent", rows)

The file of an environment is imported in a worker process of its own, so that author code neither ends the command nor
writes to its output. An environment that this interpreter cannot import checks no row, and `unchecked` says why.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel

from nemo_gym.config.servers import ServerInstance
from nemo_gym.failures import ConfigError, GymError
from nemo_gym.processes.event_loop_thread import EventLoopThread
from nemo_gym.processes.workers import WorkerPool
from nemo_gym.rollouts.run.preflight import find_environment
from nemo_gym.rollouts.run.required_servers import runs_rows
from nemo_gym.rollouts.run.row_check import describe_fault
from nemo_gym.rows.forms import AnyRow

_TIMEOUT_S = 120.0
"""Seconds for a batch, with the import of the environment."""

_models: dict[Path, Sequence[type[BaseModel]]] = {}
"""The models of the environment that this worker has imported."""


class TaskChecks:
    """The environments of a configuration, for checks of the rows of its agents."""

    def __init__(self, servers: Sequence[ServerInstance], data: Mapping[str, Any]) -> None:
        self.unchecked: dict[str, str] = {}
        """The reason, by each agent whose rows no environment has checked although one will read them."""
        self._servers = {server.name: server for server in servers}
        self._data = data
        self._pools: dict[Path, WorkerPool] = {}
        self._loop = EventLoopThread("task checks")

    def __enter__(self) -> Self:
        self._loop.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for pool in self._pools.values():
            self._loop.run(pool.close())
        self._loop.__exit__(*error)

    def find_faults(self, agent: str, rows: Sequence[AnyRow]) -> Mapping[int, Sequence[str]]:
        """Return the messages about the rows that the agent's environment cannot read, by their places in `rows`."""
        if agent in self.unchecked:
            return {}
        if not runs_rows(self._data.get(agent)):
            self.unchecked[agent] = "the configuration has no such agent; name its files in +config_paths"
            return {}
        environment = self._servers.get(find_environment(self._data.get(agent)) or "")
        if environment is None:
            return {}
        try:
            faults = self._ask(environment, rows)
        except GymError as error:
            self.unchecked[agent] = f"`{environment.name}` cannot be imported here: {error.failure.message}"
            return {}
        messages: defaultdict[int, list[str]] = defaultdict(list)
        for fault in faults:
            row = rows[fault["row"]]
            message, remedy = describe_fault(environment.name, row, fault)
            messages[fault["row"]].append(f"{message} {remedy or ''}".rstrip())
        return messages

    def _ask(self, environment: ServerInstance, rows: Sequence[AnyRow]) -> list[dict[str, Any]]:
        script = environment.directory / environment.entrypoint
        pool = self._pools.setdefault(script, WorkerPool(1))
        job = pool.run(check_in_worker, script, environment.name, self._data, rows, timeout_s=_TIMEOUT_S)
        return self._loop.run(job)


def check_in_worker(
    script: Path, name: str, data: Mapping[str, Any], rows: Sequence[AnyRow]
) -> list[dict[str, Any]]:
    """Return the faults that the environment `name`, whose file is `script`, finds in rows.

    Raises `ConfigError` if it cannot be imported.
    """
    from nemo_gym.resources.task_check import check_tasks, find_task_models

    if script not in _models:
        from nemo_gym.config import bootstrap
        from nemo_gym.launch._implementation import load_server_class

        bootstrap.set_current(bootstrap.Bootstrap(name, dict(data), "", "", []))
        os.chdir(script.parent)
        try:
            with redirect_stdout(sys.stderr):
                _models[script] = find_task_models(load_server_class(script))
        except Exception as error:  # author code may raise anything
            raise ConfigError(f"{type(error).__name__}: {error}", code="not_imported") from error
    return check_tasks(_models[script], rows)
