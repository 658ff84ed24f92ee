"""The check of a dataset's rows by the models of their environments, before the first rollout.

Each environment gets the rows of its agents in batches, and answers their faults (`nemo_gym.resources.task_check`). An
environment that cannot check rows is not asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any, NamedTuple

from nemo_gym.config.problems import ConfigErrors, Location, Problem
from nemo_gym.failures import GymError
from nemo_gym.json_objects import object_in
from nemo_gym.names import TASKS_ROUTE
from nemo_gym.rollouts.plan.dataset import locate, read_lines
from nemo_gym.rollouts.plan.line_spans import LineSpans
from nemo_gym.rollouts.plan.plan import PlanSettings, build_shaper
from nemo_gym.rollouts.plan.task_rows import SHOWN_FAULTS, FaultyRowError
from nemo_gym.rollouts.run.preflight import find_environment
from nemo_gym.rows.forms import TaskRow
from nemo_gym.rows.parts import read_task_data
from nemo_gym.transport import Caller, RetryBudget

MOST_CHECKED = 20_000
"""Rows of an environment that are checked: a mistake in a dataset is in its first rows."""
_BATCH_ROWS = 500
_BATCH_BYTES = 4 << 20
_BATCH_S = 60.0
_ONE_TRY = RetryBudget(attempts=1)


class _PlacedTask(NamedTuple):
    file: str
    line: int
    row: TaskRow
    encoded: bytes


async def refuse_unfit_rows(
    caller: Caller, plan: PlanSettings, servers: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raise `ConfigErrors` with the rows that their environments could not read.

    `servers` is the configuration of the agents and the servers that they refer to, by name.
    """
    asking = Caller(caller.directory, caller.transport, budget=_ONE_TRY, token=caller.token)
    found: dict[tuple[str, str, str | None], LineSpans] = {}
    silent: set[str] = set()
    batches = _list_batches(plan, servers, silent)
    while len(found) < SHOWN_FAULTS and (batch := await asyncio.to_thread(next, batches, None)):
        environment, tasks = batch
        faults = await _ask(asking, environment, tasks)
        if faults is None:
            silent.add(environment)
            continue
        for fault in faults:
            task = tasks[fault["row"]]
            found.setdefault((task.file, *_describe(environment, task, fault)), LineSpans()).add(task.line)
    if found:
        problems = [
            Problem(Location(f"{file}:{lines}"), message, remedy)
            for (file, message, remedy), lines in islice(found.items(), SHOWN_FAULTS)
        ]
        raise ConfigErrors(problems)


def _list_batches(
    plan: PlanSettings, servers: Mapping[str, Mapping[str, Any]], silent: set[str]
) -> Iterator[tuple[str, list[_PlacedTask]]]:
    """Yield the tasks of each environment in batches; none of the `silent` ones."""
    checked: dict[str, int] = {}
    waiting: dict[str, list[_PlacedTask]] = {}
    for environment, task in _list_tasks(plan, servers):
        if environment in silent or checked.setdefault(environment, 0) >= MOST_CHECKED:
            continue
        checked[environment] += 1
        batch = waiting.setdefault(environment, [])
        batch.append(task)
        if len(batch) >= _BATCH_ROWS or sum(len(each.encoded) for each in batch) >= _BATCH_BYTES:
            yield environment, waiting.pop(environment)
    yield from waiting.items()


def _list_tasks(
    plan: PlanSettings, servers: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, _PlacedTask]]:
    environments = {name: find_environment(block) for name, block in servers.items()}
    for file in plan.datasets:
        shaper = build_shaper(file, plan)
        for number, content in islice(read_lines(locate(file.path)), plan.limit):
            try:
                copies = shaper.tasks(content, file.num_repeats)
            except FaultyRowError:  # has been reported
                continue
            for task, _ in copies:
                environment = environments.get(task.agent)
                if environment is not None:
                    yield environment, _PlacedTask(str(file.path), number, task.row, task.encoded)


async def _ask(caller: Caller, environment: str, tasks: list[_PlacedTask]) -> list[dict[str, Any]] | None:
    """Return the faults that an environment finds; None for one that cannot check rows."""
    body = b'{"rows":[' + b",".join(task.encoded for task in tasks) + b"]}"
    try:
        reply = await asyncio.wait_for(caller.call(environment, "POST", TASKS_ROUTE, body=body), _BATCH_S)
    except (GymError, TimeoutError):
        return None  # the server's own check reports what is wrong with it
    faults = (object_in(reply.body) or {}).get("faults") if reply.ok else None
    return faults if isinstance(faults, list) else None


def _describe(environment: str, task: _PlacedTask, fault: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the message and the remedy of a fault."""
    key = str(fault["key"])
    if "remedy" in fault:
        return f"`{environment}`: {fault['message']}", fault["remedy"]
    if "value" in fault:
        message = f"`{key}` is {fault['value']}, which `{environment}` cannot read: {fault['message']}."
        return message, f"Correct `{key}` of the row."
    close = get_close_matches(key, [str(name) for name in read_task_data(task.row)], 1)
    remedy = f"Rename `{close[0]}` to `{key}`." if close else f"Add `{key}` to the row."
    return f"`{environment}` needs `{key}`: {fault['message']}.", remedy
