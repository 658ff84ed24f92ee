"""Turns a line of a dataset into the task that an agent receives, or into the list of its faults.

The check of a dataset and the collection use the same code, so a row that passed the check runs unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.inputs.prompts import PromptConfig, apply_prompt_to_row, refuse_literal_fields
from nemo_gym.json_objects import MAX_DEPTH, find_long_integers, is_odd, measure_form, object_in, parse_json
from nemo_gym.rollouts.plan.line_spans import LineSpans
from nemo_gym.rollouts.plan.routing import Routing, read_source
from nemo_gym.rollouts.plan.row_forms import CONVERTED_FORMS, find_foreign_parts, name_conversion
from nemo_gym.rows.compose import assign_agent, assign_skills, drop_reserved, replace_params
from nemo_gym.rows.forms import AnyRow, TaskRow
from nemo_gym.rows.keys import AGENT_REF_KEY, PARAMS_KEY
from nemo_gym.rows.parts import is_reserved, read_agent, read_params
from nemo_gym.rows.version import require_readable

_NO_AGENT = "is missing, and no +agent_name is set (a gym with only one agent needs neither)"
SHOWN_FAULTS = 50
"""Faults that a report prints; the rest are counted."""


class FieldFault(NamedTuple):
    """A fault of a row: the field (empty for the whole row) and the message."""

    field: str
    message: str


class FaultyRowError(Exception):
    """A line that is not a valid task."""

    def __init__(self, *faults: FieldFault) -> None:
        super().__init__("; ".join(f"{fault.field}: {fault.message}" for fault in faults))
        self.faults = faults


@dataclass(slots=True)
class RowFaults:
    """The faults of the malformed rows of datasets: all are counted, the first different ones are kept."""

    count: int = 0
    convertible: Path | None = None
    """The first file with rows in the form of Chat Completions."""
    _lines: dict[tuple[Path, str], LineSpans] = field(default_factory=dict)
    """The lines of each of the first `SHOWN_FAULTS` faults, by file and text."""

    def add(self, path: Path, line: int, error: FaultyRowError) -> None:
        self.count += len(error.faults)
        if self.convertible is None and any(
            form in fault.message for form in CONVERTED_FORMS for fault in error.faults
        ):
            self.convertible = path
        for name, message in error.faults:
            fault = (path, f"{f' `{name}`' if name else ''} {message}")
            if fault in self._lines or len(self._lines) < SHOWN_FAULTS:
                self._lines.setdefault(fault, LineSpans()).add(line)

    @property
    def shown(self) -> list[str]:
        """The first faults, each with its file, its first line, and the lines of all rows that have it."""
        return [
            f"{path}:{lines.first}:{text}{lines.describe()}" for (path, text), lines in self._lines.items()
        ]

    def refuse(self, problem: str, remedy: str) -> None:
        """Raise `ConfigError` with the problem and the faults, if there are any."""
        if self.count:
            more = self.count - sum(lines.count for lines in self._lines.values())
            listed = "".join(
                f"\n  {fault}" for fault in [*self.shown, *([f"… and {more} more"] if more else [])]
            )
            if self.convertible is not None:
                remedy = f"Convert them: {name_conversion(self.convertible)}"
            raise ConfigError(f"{problem}:{listed}", code="malformed_rows", remedy=remedy)


@dataclass(frozen=True, slots=True)
class Task:
    """A validated row, without an identity."""

    agent: str
    row: TaskRow
    encoded: bytes
    """`row` as JSON."""
    reserved_keys: tuple[str, ...] = ()
    """Reserved keys that were removed from the dataset's row."""
    source: str = ""
    """The key by which the row was routed (`nemo_gym.rollouts.plan.routing`)."""

    @property
    def params(self) -> dict[str, Any]:
        params: dict[str, Any] = self.row[PARAMS_KEY]
        return params

    @property
    def tools(self) -> Iterator[str]:
        """Yield the names of the functions that the task declares."""
        declared = self.params.get("tools")
        for tool in declared if isinstance(declared, list) else ():
            if isinstance(tool, dict) and tool.get("type", "function") == "function":
                yield str(tool.get("name"))

    def encode_with_seed(self, seed: int) -> bytes:
        """Return the task as JSON with `seed` in `metadata.extra_body`, a JSON string of engine parameters.

        Other parameters of the row are kept; a seed of the row is replaced.
        """
        extra_body = {**read_extra_body(self.params), "seed": seed}
        metadata = {**(self.params.get("metadata") or {}), "extra_body": orjson.dumps(extra_body).decode()}
        return orjson.dumps(replace_params(self.row, {**self.params, "metadata": metadata}))

    def replace_agent(self, agent: str) -> Task:
        """Return this task for another agent."""
        row = assign_agent(self.row, agent)
        return self if agent == self.agent else replace(self, agent=agent, row=row, encoded=orjson.dumps(row))


class RepeatedTask(NamedTuple):
    """A task of one agent."""

    task: Task
    repeats: int
    """Rollouts that the agent makes."""


@dataclass(frozen=True, slots=True)
class TaskShaper:
    """The changes that turn a row of a dataset file into a task."""

    agent_name: str | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Merged into each row's `responses_create_params`, recursively."""
    prompt: PromptConfig | None = None
    needs_seed: bool = False
    """Check that a seed can be added (`Task.encode_with_seed`)."""
    routing: Routing = field(default_factory=Routing)
    skills_ref: Mapping[str, Any] | None = None
    """The skills of the run, which every row names."""

    def tasks(self, line: bytes, num_repeats: int) -> list[RepeatedTask]:
        """Return the task of a line once for each of its agents. `num_repeats` is the dataset's number.

        Raises `FaultyRowError` with all faults.
        """
        task = self.shape(line)
        repeated = []
        for agent in self.routing.agents(task.source, task.agent):
            repeats = self.routing.repeats(agent, task.source, num_repeats)
            if repeats is None:
                message = f"`{agent}` is not a key of +num_repeats, which has no `_default`"
                raise FaultyRowError(FieldFault(AGENT_REF_KEY, message))
            repeated.append(RepeatedTask(task.replace_agent(agent), repeats))
        return repeated

    def shape(self, line: bytes) -> Task:
        """Return the task of a line. Raises `FaultyRowError` with all faults."""
        return self.shape_row(parse_row(line), line.strip())

    def shape_row(self, row: Any, encoded: bytes | None = None) -> Task:
        """Return the task of a row, which `encoded` is as JSON. Raises `FaultyRowError` with all faults."""
        form_faults = find_form_faults(row, encoded)
        reserved = tuple(filter(is_reserved, row))
        if reserved:
            row = drop_reserved(row)
        shaped = row
        if self.prompt is not None and isinstance(row.get(PARAMS_KEY, {}), dict):
            shaped = apply_prompt(row, self.prompt)
        if self.overrides and isinstance(shaped.get(PARAMS_KEY), dict):
            shaped = replace_params(shaped, merge(shaped[PARAMS_KEY], self.overrides))
        source, agent = read_source(shaped), self.routing.find_agent(shaped, self.agent_name)
        added_faults = _long_integers(shaped) if self.overrides or self.prompt is not None else []
        faults = [*form_faults, *added_faults, *_params_faults(shaped), *self._agent_faults(shaped, agent)]
        if faults:
            raise FaultyRowError(*dict.fromkeys(faults))
        if self.needs_seed:
            read_extra_body(shaped[PARAMS_KEY])
        shaped = self._complete(shaped, str(agent))
        if encoded is None or shaped is not row or reserved:
            encoded = orjson.dumps(shaped)
        return Task(str(agent), shaped, encoded, reserved, source)

    def _complete(self, row: TaskRow, agent: str) -> TaskRow:
        """Return the row with the members that routing and skills set; the same object if there are none."""
        if read_agent(row) != agent:
            row = assign_agent(row, agent)
        return row if self.skills_ref is None else assign_skills(row, self.skills_ref)

    def _agent_faults(self, row: AnyRow, agent: str | None) -> list[FieldFault]:
        reference = row.get(AGENT_REF_KEY)
        if reference is None:
            return [] if agent else [FieldFault(AGENT_REF_KEY, _NO_AGENT)]
        if not isinstance(reference, Mapping):
            return [
                FieldFault(AGENT_REF_KEY, f"must be an object with a `name`, not {describe_kind(reference)}")
            ]
        if not isinstance(reference.get("name"), str) or not reference["name"]:
            return [FieldFault(f"{AGENT_REF_KEY}.name", "must be the name of an agent")]
        return []


def apply_prompt(row: TaskRow, prompt: PromptConfig) -> TaskRow:
    """Return a row with its filled prompt. Raises `FaultyRowError` if it does not match the template.

    Raises `ConfigError` for a template that has a field of the row as literal text.
    """
    if read_params(row).get("input"):
        message = (
            f"is present, and {prompt.source} would replace it: give rows an input or a template, not both"
        )
        raise FaultyRowError(FieldFault(f"{PARAMS_KEY}.input", message))
    refuse_literal_fields(prompt, row)
    try:
        return apply_prompt_to_row(row, prompt)
    except ConfigError as error:
        raise FaultyRowError(FieldFault(error.failure.param or "", error.failure.message)) from error


def parse_row(line: bytes) -> TaskRow:
    """Return the JSON object of a line. Raises `FaultyRowError` for anything else."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise FaultyRowError(
            FieldFault("", f"is not JSON: {error.msg} (character {error.pos + 1})")
        ) from error
    return require_object(row)


def require_object(row: Any) -> TaskRow:
    """Return a row. Raises `FaultyRowError` unless it is an object."""
    if not isinstance(row, dict):
        raise FaultyRowError(FieldFault("", f"must be a JSON object, not {describe_kind(row)}"))
    return TaskRow(row)


def find_form_faults(row: Any, encoded: bytes | None = None) -> list[FieldFault]:
    """Return the integers of a row that readers of JSON round. Raises `FaultyRowError` for a row that is too deep.

    `encoded` is the row as JSON; without it, `row` was parsed with integers of any size.
    """
    require_object(row)
    if encoded is not None and not is_odd(encoded):
        return []
    depth, may_be_rounded = measure_form(row)
    if depth > MAX_DEPTH:
        message = f"has {depth} levels of objects and lists, and a row can have {MAX_DEPTH}"
        raise FaultyRowError(FieldFault("", message))
    if encoded is None:
        return _long_integers(row)
    return _long_integers(parse_json(encoded)) if may_be_rounded else []


def _long_integers(row: Mapping[str, Any]) -> list[FieldFault]:
    message = "is an integer of more than 64 bit, which many readers of JSON round: write it as a string"
    return [FieldFault(place, message) for place in islice(find_long_integers(row), SHOWN_FAULTS)]


def read_object(line: bytes, place: str, *, code: str, remedy: str | None = None) -> dict[str, Any]:
    """Return the JSON object of a line of a stored file.

    Raises `ConfigError`, with its `place`, for anything else, and for a row of a newer version.
    """
    try:
        row = parse_row(line)
    except FaultyRowError as error:
        message = f"{place}: the row {error.faults[0].message}"
        raise ConfigError(message, code=code, remedy=remedy) from error
    require_readable(row, place)
    return row


def _params_faults(row: AnyRow) -> list[FieldFault]:
    if foreign := [FieldFault(*part) for part in find_foreign_parts(row)]:
        return foreign
    if PARAMS_KEY not in row:
        return [FieldFault(PARAMS_KEY, "is missing")]
    params = row[PARAMS_KEY]
    if not isinstance(params, dict):
        return [FieldFault(PARAMS_KEY, f"must be an object, not {describe_kind(params)}")]
    if "input" not in params:
        return [FieldFault(f"{PARAMS_KEY}.input", "is missing")]
    if not isinstance(params["input"], str | list):
        message = f"must be a string or a list of messages, not {describe_kind(params['input'])}"
        return [FieldFault(f"{PARAMS_KEY}.input", message)]
    return [
        FieldFault(f"{PARAMS_KEY}.input[{place}]", f"must be an object, not {describe_kind(item)}")
        for place, item in enumerate(params["input"])
        if isinstance(params["input"], list) and not isinstance(item, dict)
    ]


def read_extra_body(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine parameters in `metadata.extra_body`. Raises `FaultyRowError` unless it is a JSON object."""
    metadata = params.get("metadata") or {}
    written = metadata.get("extra_body") if isinstance(metadata, Mapping) else metadata
    extra_body = object_in(written or "{}")
    if extra_body is None:
        place = f"{PARAMS_KEY}.metadata.extra_body"
        raise FaultyRowError(
            FieldFault(place, "must be a JSON string of an object, because a seed is added to it")
        )
    return extra_body


def merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated with `overrides`; objects in both are merged recursively."""
    merged = {**base, **overrides}
    for key in base.keys() & overrides.keys():
        if isinstance(base[key], Mapping) and isinstance(overrides[key], Mapping):
            merged[key] = merge(base[key], overrides[key])
    return merged


def describe_kind(value: object) -> str:
    """Return the JSON type of a value, with its article."""
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")
