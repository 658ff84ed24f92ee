"""A request for rollouts: the task rows in the body of `POST /rollouts`, and what the caller says about them.

Two bodies say the same: JSON, `{"rows": [...], <options>}`, or NDJSON, a task row on each line, with the options in the
query. Rows are numbered by their place in the body: that number is the `_ng_task_index` of their rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import InputError
from nemo_gym.rollouts.plan.identity import RolloutId
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, Task, TaskShaper
from nemo_gym.rollouts.run.collector import RunLimits
from nemo_gym.rollouts.run.required_servers import require_agents

NDJSON = "application/x-ndjson"
_TOLD_PROBLEMS = 20


class RolloutRequestOptions(BaseModel):
    """The options of a request, named as the keys of `ng_collect_rollouts`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    num_repeats: int = Field(1, ge=1)
    """Rollouts of each row."""
    num_samples_in_parallel: int = Field(64, ge=1)
    """Rollouts in flight."""
    max_attempts: int = Field(3, ge=1)
    """Attempts at a rollout, where its failure may pass."""
    rollout_timeout_s: float | None = Field(1800.0, gt=0)
    """Seconds an attempt may take; null for no bound."""
    stop_after_identical_failures: int = Field(20, ge=0)
    """Rollouts that may fail alike, one after the other, before the rest is given up; 0 for any number."""
    num_repeats_add_seed: bool = False
    """Give each repeat its number as the seed of sampling."""
    agent_name: str | None = None
    """The agent of rows that name none."""
    responses_create_params: dict[str, Any] = Field(default_factory=dict)
    """Laid over those of every row."""

    @property
    def limits(self) -> RunLimits:
        return RunLimits(self.num_samples_in_parallel, self.max_attempts, self.rollout_timeout_s)


@dataclass(frozen=True, slots=True)
class RolloutRequest:
    """Rows that can be run, and how."""

    tasks: Sequence[Task]
    options: RolloutRequestOptions

    @property
    def planned(self) -> int:
        """The number of rollouts."""
        return len(self.tasks) * self.options.num_repeats

    def plan(self) -> Iterator[PlannedAttempt]:
        """Every rollout, the repeats of a row one after the other."""
        for number, task in enumerate(self.tasks):
            for repeat in range(self.options.num_repeats):
                identity = RolloutId(number, repeat)
                encoded = task.with_seed(repeat) if self.options.num_repeats_add_seed else task.encoded
                yield PlannedAttempt(identity, task.agent, identity.head() + encoded[1:])


def read_request(
    body: bytes, content_type: str, query: Mapping[str, str], config: Mapping[str, Any]
) -> RolloutRequest:
    """The request in a body. Raises `InputError` with everything that is wrong with it: options, rows and agents."""
    problems: list[_Problem] = []
    if content_type.partition(";")[0].strip().lower() == NDJSON:
        lines = [line for line in body.splitlines() if not line.isspace() and line]
        options = _options_of(query, problems, strict=False)
    else:
        rows, given = _json_body(body)
        lines = [orjson.dumps(row) for row in rows]
        options = _options_of(given, problems, strict=True)
    tasks = _tasks_of(lines, options, problems)
    try:
        require_agents({task.agent for task in tasks}, config)
    except ConfigErrors as error:
        problems += [_Problem("agent_ref.name", str(problem)) for problem in error.problems]
    if problems:
        raise _bad_request(problems)
    return RolloutRequest(tasks, options)


class _Problem(NamedTuple):
    """Something wrong with a request: the field at fault and what is the matter."""

    param: str
    message: str


def _json_body(body: bytes) -> tuple[list[Any], dict[str, Any]]:
    try:
        given = orjson.loads(body or b"null")
    except orjson.JSONDecodeError as error:
        raise _bad_request([_Problem("body", f"the body is not JSON: {error}")]) from error
    if not isinstance(given, dict) or not isinstance(given.get("rows"), list):
        raise _bad_request([_Problem("rows", "the body needs `rows`, a list of task rows")])
    return given.pop("rows"), given


def _options_of(given: Mapping[str, Any], problems: list[_Problem], *, strict: bool) -> RolloutRequestOptions:
    """The options in `given`, those that are wrong left out.

    `strict`: values have their types already; in a query all are text.
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


def _tasks_of(lines: Sequence[bytes], options: RolloutRequestOptions, problems: list[_Problem]) -> list[Task]:
    """The tasks of those lines that are such."""
    shaper = TaskShaper(
        options.agent_name, options.responses_create_params, needs_seed=options.num_repeats_add_seed
    )
    tasks = []
    for number, line in enumerate(lines):
        try:
            tasks.append(shaper.shape(line))
        except FaultyRowError as error:
            for fault in error.faults:
                place = f"rows[{number}]{'.' if fault.field else ''}{fault.field}"
                problems.append(_Problem(place, f"{place} {fault.message}"))
    return tasks


def _bad_request(problems: Sequence[_Problem]) -> InputError:
    told = "; ".join(problem.message for problem in problems[:_TOLD_PROBLEMS])
    more = f"; and {len(problems) - _TOLD_PROBLEMS} more" if len(problems) > _TOLD_PROBLEMS else ""
    return InputError(
        f"the request for rollouts is not valid: {told}{more}",
        code="invalid_request",
        param=problems[0].param,
        remedy="docs/routes.md says what POST /rollouts takes.",
    )
