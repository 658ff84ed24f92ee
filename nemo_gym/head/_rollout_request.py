"""The request body of `POST /rollouts`: task rows and options.

The body is JSON, `{"rows": [...], <options>}`, or NDJSON, one task row per line, with the options in the query. The
index of a row in the body is the `_ng_task_index` of its rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from pydantic import Field, ValidationError

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import InputError
from nemo_gym.json_objects import parse_json
from nemo_gym.rollouts.plan.plan import PlannedAttempt, plan_attempts
from nemo_gym.rollouts.plan.routing import Routing
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, RepeatedTask, Task, TaskShaper
from nemo_gym.rollouts.run.options import MAX_COUNT, LimitOptions
from nemo_gym.rollouts.run.required_servers import only_agent, require_agents

NDJSON = "application/x-ndjson"
_SHOWN_PROBLEMS = 20


class RolloutRequestOptions(LimitOptions):
    """The options of a request, named as the keys of `ng_collect_rollouts`."""

    num_repeats: int = Field(1, ge=1, le=MAX_COUNT)
    """Rollouts of each row."""
    num_samples_in_parallel: int = Field(64, ge=1, le=MAX_COUNT)
    """Rollouts in flight."""
    num_repeats_add_seed: bool = False
    """Use the number of each repeat as its sampling seed."""
    agent_name: str | None = None
    """The agent of rows without one."""
    responses_create_params: dict[str, Any] = Field(default_factory=dict)
    """Merged into those of every row."""


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """Validated rows and options."""

    tasks: Sequence[Task]
    options: RolloutRequestOptions

    @property
    def planned(self) -> int:
        """The number of rollouts."""
        return len(self.tasks) * self.options.num_repeats

    def plan(self) -> Iterator[PlannedAttempt]:
        """Yield every rollout; the repeats of a row are consecutive."""
        for number, task in enumerate(self.tasks):
            repeated = RepeatedTask(task, self.options.num_repeats)
            yield from plan_attempts(number, [repeated], self.options.num_repeats_add_seed)


def read_request(
    body: bytes, content_type: str, query: Mapping[str, str], config: Mapping[str, Any]
) -> RolloutRequest:
    """Parse a request. Raises `InputError` with all problems of options, rows and agents."""
    problems: list[_Problem] = []
    if content_type.partition(";")[0].strip().lower() == NDJSON:
        rows: list[Any] = [line for line in body.splitlines() if not line.isspace() and line]
        options = _read_options(query, problems, strict=False)
    else:
        rows, given = _json_body(body)
        options = _read_options(given, problems, strict=True)
    tasks = _read_tasks(rows, options, Routing(only_agent=only_agent(config)), problems)
    try:
        require_agents({task.agent for task in tasks}, config)
    except ConfigErrors as error:
        problems += [_Problem("agent_ref.name", str(problem)) for problem in error.problems]
    if problems:
        raise _bad_request(problems)
    return RolloutRequest(tasks, options)


class _Problem(NamedTuple):
    """A problem of a request: the field and the message."""

    param: str
    message: str


def _json_body(body: bytes) -> tuple[list[Any], dict[str, Any]]:
    try:
        given = parse_json(body or b"null")
    except orjson.JSONDecodeError as error:
        raise _bad_request([_Problem("body", f"the body is not JSON: {error}")]) from error
    if not isinstance(given, dict) or not isinstance(given.get("rows"), list):
        raise _bad_request([_Problem("rows", "the body needs `rows`, a list of task rows")])
    return given.pop("rows"), given


def _read_options(
    given: Mapping[str, Any], problems: list[_Problem], *, strict: bool
) -> RolloutRequestOptions:
    """Return the valid options in `given`; add the problems of the others to `problems`.

    `strict`: do not convert types. Query parameters are text and need conversion.
    """
    try:
        return RolloutRequestOptions.model_validate(dict(given), strict=strict)
    except ValidationError as error:
        faulty = {str(each["loc"][0]) for each in error.errors()}
        known = ", ".join(RolloutRequestOptions.model_fields)
        problems += [
            _Problem(
                str(each["loc"][0]),
                f"{'.'.join(map(str, each['loc']))}: {each['msg']}"
                + (f" (options are {known})" if each["type"] == "extra_forbidden" else ""),
            )
            for each in error.errors()
        ]
    sound = {name: value for name, value in given.items() if name not in faulty}
    return RolloutRequestOptions.model_validate(sound, strict=strict)


def _read_tasks(
    rows: Sequence[Any], options: RolloutRequestOptions, routing: Routing, problems: list[_Problem]
) -> list[Task]:
    """Return the tasks of the valid rows, or lines; add the problems of the others to `problems`."""
    shaper = TaskShaper(
        options.agent_name,
        options.responses_create_params,
        needs_seed=options.num_repeats_add_seed,
        routing=routing,
    )
    tasks = []
    for number, row in enumerate(rows):
        try:
            tasks.append(shaper.shape(row) if isinstance(row, bytes) else shaper.shape_row(row))
        except FaultyRowError as error:
            for fault in error.faults:
                place = f"rows[{number}]{'.' if fault.field else ''}{fault.field}"
                problems.append(_Problem(place, f"{place} {fault.message}"))
    return tasks


def _bad_request(problems: Sequence[_Problem]) -> InputError:
    shown = "; ".join(problem.message for problem in problems[:_SHOWN_PROBLEMS])
    more = f"; and {len(problems) - _SHOWN_PROBLEMS} more" if len(problems) > _SHOWN_PROBLEMS else ""
    return InputError(
        f"the request for rollouts is not valid: {shown}{more}",
        code="invalid_request",
        param=problems[0].param,
        remedy="See POST /rollouts in docs/routes.md.",
    )
