"""The check of a dataset's rows by the models of their environments, before the first rollout.

Each environment gets the rows of its agents in batches, and answers their faults (`nemo_gym.resources.task_check`):
before its server starts in a fork (`nemo_gym.launch.task_checks`), or else the server. An environment that cannot check
rows is not asked again. The rows that do not fit are refused, or left out of the plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from nemo_gym.config.problems import ConfigErrors, Location, Problem
from nemo_gym.failures import GymError
from nemo_gym.json_objects import object_in
from nemo_gym.names import TASKS_ROUTE
from nemo_gym.rollouts.plan.dataset import locate, read_lines
from nemo_gym.rollouts.plan.line_spans import LineSpans
from nemo_gym.rollouts.plan.plan import PlanSettings, RowPlace, build_shaper
from nemo_gym.rollouts.plan.task_rows import SHOWN_FAULTS, FaultyRowError
from nemo_gym.rollouts.run.preflight import find_environment
from nemo_gym.rows.forms import AnyRow, TaskRow
from nemo_gym.rows.parts import read_task_data
from nemo_gym.transport import Caller, RetryBudget

MOST_CHECKED = 20_000
"""Rows of an environment that are checked: a mistake in a dataset is in its first rows."""
_BATCH_ROWS = 500
_BATCH_BYTES = 4 << 20
_BATCH_S = 60.0
_ONE_TRY = RetryBudget(attempts=1)
_Noted: TypeAlias = dict[tuple[Path, str], LineSpans]
"""The lines of each note, by file and text."""
Ask: TypeAlias = Callable[[str, Sequence[bytes]], Awaitable[Mapping[str, Any] | None]]
"""Returns the faults and notes of an environment about encoded rows; None for one that cannot check rows."""


class _PlacedTask(NamedTuple):
    place: RowPlace
    row: TaskRow
    encoded: bytes


async def refuse_unfit_rows(ask: Ask, plan: PlanSettings, servers: Mapping[str, Any]) -> list[str]:
    """Raise `ConfigErrors` with the rows that their environments could not read. Return notes on the others.

    `servers` is the configuration of the servers by name, or a whole configuration.
    """
    found: dict[tuple[Path, str, str | None], LineSpans] = {}
    noted: _Noted = {}
    async with aclosing(_find_unfit(ask, plan, servers, MOST_CHECKED, noted)) as unfit:
        async for task, message, remedy in unfit:
            found.setdefault((task.place.file, message, remedy), LineSpans()).add(task.place.line)
            if len(found) == SHOWN_FAULTS:
                break
    if found:
        problems = (
            Problem(Location(str(file), lines.first), f"{message}{lines.describe()}", remedy)
            for (file, message, remedy), lines in found.items()
        )
        raise ConfigErrors([*problems])
    return [
        f"{file}:{lines.first}: {message}{lines.describe()}"
        for (file, message), lines in islice(noted.items(), SHOWN_FAULTS)
    ]


async def leave_out_unfit_rows(ask: Ask, plan: PlanSettings, servers: Mapping[str, Any]) -> PlanSettings:
    """Return the plan without the rows that their environments could not read. All rows are checked."""
    unfit: dict[RowPlace, str] = {}
    async for task, message, _ in _find_unfit(ask, plan, servers, None, {}):
        unfit.setdefault(task.place, message)
    return replace(plan, unfit=unfit) if unfit else plan


async def _find_unfit(
    ask: Ask,
    plan: PlanSettings,
    servers: Mapping[str, Any],
    most: int | None,
    noted: _Noted,
) -> AsyncGenerator[tuple[_PlacedTask, str, str | None], None]:
    """Yield the task, message and remedy of each fault in the first `most` tasks of each environment; None for all.

    The notes of the environments are added to `noted`.
    """
    silent: set[str] = set()
    batches = _list_batches(plan, servers, silent, most)
    while batch := await asyncio.to_thread(next, batches, None):
        environment, tasks = batch
        answer = await ask(environment, [task.encoded for task in tasks])
        if answer is None:
            silent.add(environment)
            continue
        for note in answer.get("notes") or ():
            place, message = tasks[note["row"]].place, f"{note['message']} (`{environment}`)"
            noted.setdefault((place.file, message), LineSpans()).add(place.line)
        for fault in answer["faults"]:
            task = tasks[fault["row"]]
            yield task, *describe_fault(environment, task.row, fault)


def _list_batches(
    plan: PlanSettings, servers: Mapping[str, Any], silent: set[str], most: int | None
) -> Iterator[tuple[str, list[_PlacedTask]]]:
    """Yield the tasks of each environment in batches; none of the `silent` ones."""
    checked: dict[str, int] = {}
    waiting: dict[str, list[_PlacedTask]] = {}
    sizes: dict[str, int] = {}
    for environment, task in _list_tasks(plan, servers):
        if environment in silent or checked.get(environment, 0) == most:
            continue
        checked[environment] = checked.get(environment, 0) + 1
        batch = waiting.setdefault(environment, [])
        batch.append(task)
        sizes[environment] = sizes.get(environment, 0) + len(task.encoded)
        if len(batch) >= _BATCH_ROWS or sizes[environment] >= _BATCH_BYTES:
            del sizes[environment]
            yield environment, waiting.pop(environment)
    yield from waiting.items()


def _list_tasks(plan: PlanSettings, servers: Mapping[str, Any]) -> Iterator[tuple[str, _PlacedTask]]:
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
                    yield environment, _PlacedTask(RowPlace(file.path, number), task.row, task.encoded)


def ask_servers(caller: Caller, checked: Collection[str] = ()) -> Ask:
    """Return a function that asks environments which run, other than those that have `checked` their rows."""
    asking = Caller(caller.directory, caller.transport, budget=_ONE_TRY, token=caller.token)

    async def ask(environment: str, rows: Sequence[bytes]) -> Mapping[str, Any] | None:
        if environment in checked:
            return None
        body = b'{"rows":[' + b",".join(rows) + b"]}"
        try:
            reply = await asyncio.wait_for(asking.call(environment, "POST", TASKS_ROUTE, body=body), _BATCH_S)
        except (GymError, TimeoutError):  # the environment's own check reports what is wrong with it
            return None
        answer = object_in(reply.body) if reply.ok else None
        return answer if answer is not None and isinstance(answer.get("faults"), list) else None

    return ask


def describe_fault(environment: str, row: AnyRow, fault: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the message about a fault that an environment found in a row, and the remedy."""
    key, said = str(fault["key"]), str(fault["message"]).rstrip(" .")
    if "remedy" in fault:
        return f"`{environment}`: {said}.", fault["remedy"]
    if not key:
        return f"`{environment}` cannot read the row: {said}.", "Correct the row."
    if "value" in fault:
        message = f"`{key}` is {fault['value']}, which `{environment}` cannot read: {said}."
        return message, f"Correct `{key}` of the row."
    close = get_close_matches(key, [str(name) for name in read_task_data(row)], 1)
    remedy = f"Rename `{close[0]}` to `{key}`." if close else f"Add `{key}` to the row."
    return f"`{environment}` needs `{key}`: {said}.", remedy
