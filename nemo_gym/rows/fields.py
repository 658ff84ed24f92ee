"""The members of a row that the gym knows: who writes each, who reads it, since when, in which unit.

`docs/rows.md` and the JSON Schema that `ng_schema` prints are made from this table. A verifier adds members of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from nemo_gym.failures import Boundary, Outcome
from nemo_gym.rows import keys
from nemo_gym.rows.tool_errors import Culprit, ToolErrorKind
from nemo_gym.rows.verdict import EndReason
from nemo_gym.rows.version import ROW_VERSION

CONTRACT: Final = "the ecosystem"
"""The origin of a key that every gym of the ecosystem has."""
JsonSchema: TypeAlias = Mapping[str, Any]


class Form(StrEnum):
    """The forms of a row."""

    TASK = "task"
    SCORED = "scored"
    FAILURE = "failure"


_EVERY = frozenset(Form)
_RESULTS = frozenset({Form.SCORED, Form.FAILURE})
_SCORED = frozenset({Form.SCORED})
_FAILURE = frozenset({Form.FAILURE})


@dataclass(frozen=True, slots=True)
class RowField:
    """A member of a row."""

    key: str
    schema: JsonSchema
    """The JSON Schema of its value."""
    meaning: str
    """With its unit, where it has one."""
    written_by: str
    read_by: str
    forms: frozenset[Form] = _RESULTS
    required: frozenset[Form] = frozenset()
    """The forms that always have it, in rows of this gym."""
    since: str = "1.0"
    """The row version that introduced it, or `CONTRACT`."""


_INDEX: JsonSchema = {"type": "integer", "minimum": 0}
_TEXT: JsonSchema = {"type": "string"}
_FLAG: JsonSchema = {"type": "boolean"}
_SECONDS: JsonSchema = {"type": "number", "minimum": 0}
_REFERENCE: JsonSchema = {
    "type": "object",
    "properties": {"type": {"const": "responses_api_agents"}, "name": {"type": "string", "minLength": 1}},
    "required": ["name"],
}
_FAILURE_OBJECT: JsonSchema = {
    "type": "object",
    "properties": {
        "message": _TEXT,
        "type": {"enum": [boundary.value for boundary in Boundary]},
        "code": _TEXT,
        "retryable": _FLAG,
        "remedy": {"type": ["string", "null"]},
        "peer": {"type": ["string", "null"]},
        "param": {"type": ["string", "null"]},
        "hops": {"type": "array", "items": _TEXT},
        "place": _TEXT,
    },
    "required": ["message", "type", "code", "retryable"],
}
_TOOL_ERRORS: JsonSchema = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {
            "tool": _TEXT,
            "by": {"enum": [culprit.value for culprit in Culprit]},
            "kind": {"enum": [kind.value for kind in ToolErrorKind]},
            "cause": _TEXT,
            "place": _TEXT,
            "count": {"type": "integer", "minimum": 1},
        },
        "required": ["tool", "by", "kind", "cause", "count"],
    },
}

FIELDS: Final[tuple[RowField, ...]] = (
    RowField(
        keys.TASK_INDEX_KEY,
        _INDEX,
        "the task's index in its dataset, from 0",
        "the plan",
        "all",
        _EVERY,
        _EVERY,
        CONTRACT,
    ),
    RowField(
        keys.ROLLOUT_INDEX_KEY,
        _INDEX,
        "the number of the rollout within its task, from 0",
        "the plan",
        "all",
        _EVERY,
        _EVERY,
        CONTRACT,
    ),
    RowField(
        keys.VERSION_KEY,
        {"type": "string", "pattern": r"^\d+\.\d+$"},
        f"the version of the row's form, now `{ROW_VERSION}`; a newer major version is refused",
        "the plan, the episode driver",
        "all",
        _EVERY,
        _EVERY,
    ),
    RowField(
        keys.ATTEMPT_INDEX_KEY,
        _INDEX,
        "the number of the attempt at the rollout, from 0",
        "the plan",
        "agents, metrics, the viewer",
        _EVERY,
        _RESULTS,
        CONTRACT,
    ),
    RowField(
        keys.ROLLOUT_ID_KEY,
        _TEXT,
        "a name of the rollout, in place of the one made of its indices",
        "trainers",
        "agents",
        frozenset({Form.TASK}),
        since=CONTRACT,
    ),
    RowField(
        keys.PARAMS_KEY,
        {"type": "object", "properties": {"input": {"type": ["string", "array"]}}, "required": ["input"]},
        "the request of the Responses API: `input`, `tools` and sampling parameters",
        "the dataset",
        "agents, exports, the viewer",
        _EVERY,
        frozenset({Form.TASK, Form.SCORED}),
        CONTRACT,
    ),
    RowField(
        keys.AGENT_REF_KEY,
        _REFERENCE,
        "the agent that attempts the task",
        "the dataset, the plan",
        "the collector, metrics, the viewer",
        _EVERY,
        _EVERY,
        CONTRACT,
    ),
    RowField(
        keys.TASK_SOURCE_KEY,
        _TEXT,
        "the server that declares the row's dataset; it routes the row",
        "the dataset",
        "the plan",
        _EVERY,
        since=CONTRACT,
    ),
    RowField(
        keys.SKILLS_REF_KEY,
        {"type": "object"},
        "the skills of the run",
        "the plan",
        "agents",
        _EVERY,
        since=CONTRACT,
    ),
    RowField(
        keys.METADATA_KEY,
        {"type": "object"},
        "what the verifier needs, such as the expected answer; members beside it are read alike",
        "the dataset",
        "the verifier",
        _EVERY,
        since=CONTRACT,
    ),
    RowField(
        keys.RESPONSE_KEY,
        {"type": "object", "properties": {"output": {"type": "array", "items": {"type": "object"}}}},
        "the Responses object with the output of all turns; token records are at its items",
        "the agent",
        "the verifier, exports, the viewer",
        _RESULTS,
        _SCORED,
        CONTRACT,
    ),
    RowField(
        keys.REWARD_KEY,
        {"type": "number"},
        "the score: finite, and no Boolean",
        "the verifier",
        "all",
        _SCORED,
        _SCORED,
        CONTRACT,
    ),
    RowField(
        keys.REWARD_COMPONENTS_KEY,
        {"type": "object", "additionalProperties": {"type": "number"}},
        "the parts that add up to the reward, by name",
        "the verifier",
        "metrics, exports",
        _SCORED,
        since=CONTRACT,
    ),
    RowField(
        keys.OUTCOME_KEY,
        {"enum": [Outcome.COMPLETED.value, Outcome.TRUNCATED.value, Outcome.FAILED.value]},
        "the outcome of the attempt",
        "the episode driver, the collector",
        "all",
        _RESULTS,
        _RESULTS,
    ),
    RowField(
        keys.END_REASON_KEY,
        {"enum": [reason.value for reason in EndReason]},
        "the reason why the policy loop ended",
        "the episode driver",
        "the closing table, exports, the viewer",
    ),
    RowField(
        keys.TIMING_KEY,
        {
            "type": "object",
            "properties": dict.fromkeys(("seed_session", "act", "verify", "total"), _SECONDS),
        },
        "seconds of the attempt by phase, and their `total`",
        "the episode driver",
        "resumed runs, reports, the viewer",
    ),
    RowField(
        keys.USAGE_KEY,
        {"type": ["object", "null"]},
        "the tokens that the engine counted, as in `response.usage`",
        "the episode driver",
        "trainers",
        _SCORED,
    ),
    RowField(
        keys.MASKED_KEY,
        _FLAG,
        "trainers skip the row; its score still counts in metrics",
        "the episode driver (`on_truncation: mask`)",
        "exports, the client, the viewer",
    ),
    RowField(
        keys.MASK_SAMPLE_KEY,
        _FLAG,
        "the same",
        "the verifier, the episode driver",
        "exports, the client, the viewer",
        since=CONTRACT,
    ),
    RowField(
        keys.TAMPERABLE_KEY,
        _FLAG,
        "the answer ran beside its verifier and could have forged the reward",
        "the verifier",
        "exports, the client",
        _SCORED,
    ),
    RowField(
        keys.ANSWER_FAULT_KEY,
        _TEXT,
        "the fault of an answer that broke its verifier, such as `raised` or `cpu_time`; the reward is at most 0",
        "the resources server",
        "metrics, the viewer",
        _SCORED,
    ),
    RowField(
        keys.ANSWER_FAULT_DETAIL_KEY,
        _TEXT,
        "the text of that fault",
        "the resources server",
        "the viewer",
        _SCORED,
    ),
    RowField(
        keys.SCORED_BY_KEY,
        _TEXT,
        "in a run whose code has changed: the digest of the code that scored the row; the manifest lists all of them",
        "the collector",
        "reports, comparisons, exports, merged runs",
        _SCORED,
        since="1.1",
    ),
    RowField(
        keys.REVERIFIED_KEY,
        {"type": "object", "properties": {"reward_before": {"type": ["number", "null"]}}},
        "the row was verified again; the earlier reward, null if there was none",
        "`ng_reverify`",
        "`ng_reverify`, the viewer",
        _SCORED,
    ),
    RowField(
        keys.FAILURE_KIND_KEY,
        {"type": ["string", "null"]},
        "the kind of a failure that the verdict is about",
        "the verifier",
        "environment servers",
        since=CONTRACT,
    ),
    RowField(
        keys.FAILURE_REASON_KEY,
        {"type": ["string", "null"]},
        "why the verdict is as it is, in words",
        "the verifier",
        "environment servers, the viewer",
        since=CONTRACT,
    ),
    RowField(
        keys.TOOL_ERRORS_KEY,
        _TOOL_ERRORS,
        "the tool calls that failed, by tool and cause; `by` is whose fault it is, and `place` is `file:line`",
        "agents",
        "metrics, the closing table, the health check, the viewer",
        _SCORED,
        since="1.1",
    ),
    RowField(
        keys.FAILURE_CLASS_KEY,
        _TEXT,
        "the class by which failures are counted; a row that has it is never scored",
        "the verifier, the collector",
        "all",
        _FAILURE,
        _FAILURE,
        CONTRACT,
    ),
    RowField(
        keys.FAILURE_KEY,
        _FAILURE_OBJECT,
        "cause, place and remedy, as in an error answer",
        "the collector",
        "`gym eval failures`, the client, the viewer",
        _FAILURE,
        _FAILURE,
    ),
    RowField(
        keys.TERMINAL_KEY,
        _FLAG,
        "no other attempt at the rollout is made in this run",
        "the verifier, the collector",
        "resumed runs",
        _FAILURE,
        _FAILURE,
        CONTRACT,
    ),
    RowField(
        keys.FAILED_AT_KEY,
        _SECONDS,
        "when the collector got the failure, in seconds since 1970",
        "the collector",
        "the viewer",
        _FAILURE,
    ),
    RowField(
        keys.JUDGE_ERROR_KEY,
        _TEXT,
        "the error of the judge",
        "the resources server",
        "the collector",
        _FAILURE,
        since=CONTRACT,
    ),
    RowField(
        keys.FAILURE_MESSAGE_KEY,
        _TEXT,
        "the text of a failure that a verifier reports",
        "the verifier",
        "the collector",
        _FAILURE,
        since=CONTRACT,
    ),
    RowField(
        keys.FAILURE_ERROR_KEY,
        _TEXT,
        "the same",
        "the verifier",
        "the collector",
        _FAILURE,
        since=CONTRACT,
    ),
    RowField(
        keys.NO_PERSIST_KEY,
        _FLAG,
        "in an answer: write no row, the rollout counts as not attempted",
        "agents, the verifier",
        "the collector",
        _FAILURE,
        since=CONTRACT,
    ),
)


def build_row_schema(form: Form) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the rows of one form that this gym writes. Other members are allowed."""
    members = [member for member in FIELDS if form in member.forms]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"{form} row, version {ROW_VERSION}",
        "type": "object",
        "properties": {each.key: {**each.schema, "description": each.meaning} for each in members},
        "required": [each.key for each in members if form in each.required],
    }
