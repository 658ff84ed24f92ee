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
from nemo_gym.rows.timing import PHASES
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
_TIMED_CALL: JsonSchema = {"type": "array", "prefixItems": [_TEXT, _TEXT, _SECONDS]}
_REFERENCE: JsonSchema = {
    "type": "object",
    "properties": {"type": {"const": "responses_api_agents"}, "name": {"type": "string", "minLength": 1}},
    "required": ["name"],
}
_FAILURE_OBJECT: JsonSchema = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("message", "code", "place"), _TEXT),
        "type": {"enum": [boundary.value for boundary in Boundary]},
        "retryable": _FLAG,
        **{key: {"type": ["string", "null"]} for key in ("remedy", "peer", "param")},
        "hops": {"type": "array", "items": _TEXT},
    },
    "required": ["message", "type", "code", "retryable"],
}
_TOOL_ERRORS: JsonSchema = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {
            **dict.fromkeys(("tool", "cause", "place"), _TEXT),
            "by": {"enum": [culprit.value for culprit in Culprit]},
            "kind": {"enum": [kind.value for kind in ToolErrorKind]},
            "count": {"type": "integer", "minimum": 1},
        },
        "required": ["tool", "by", "kind", "cause", "count"],
    },
}


def _state_failure(key: str, meaning: str) -> RowField:
    return RowField(key, _TEXT, meaning, "the verifier", "the collector", _FAILURE, since=CONTRACT)


FIELDS: Final[tuple[RowField, ...]] = (
    RowField(
        keys.TASK_INDEX_KEY,
        _INDEX,
        meaning="the task's index in its dataset, from 0",
        written_by="the plan",
        read_by="all",
        forms=_EVERY,
        required=_EVERY,
        since=CONTRACT,
    ),
    RowField(
        keys.ROLLOUT_INDEX_KEY,
        _INDEX,
        meaning="the number of the rollout within its task, from 0",
        written_by="the plan",
        read_by="all",
        forms=_EVERY,
        required=_EVERY,
        since=CONTRACT,
    ),
    RowField(
        keys.VERSION_KEY,
        {"type": "string", "pattern": r"^\d+\.\d+$"},
        meaning=f"the version of the row's form, now `{ROW_VERSION}`; a newer major version is refused",
        written_by="the plan, the episode driver",
        read_by="all",
        forms=_EVERY,
        required=_EVERY,
    ),
    RowField(
        keys.ATTEMPT_INDEX_KEY,
        _INDEX,
        meaning="the number of the attempt at the rollout, from 0",
        written_by="the plan",
        read_by="agents, metrics, the viewer",
        forms=_EVERY,
        required=_RESULTS,
        since=CONTRACT,
    ),
    RowField(
        keys.ROLLOUT_ID_KEY,
        _TEXT,
        meaning="a name of the rollout, in place of the one made of its indices",
        written_by="trainers",
        read_by="agents",
        forms=frozenset({Form.TASK}),
        since=CONTRACT,
    ),
    RowField(
        keys.PARAMS_KEY,
        {"type": "object", "properties": {"input": {"type": ["string", "array"]}}, "required": ["input"]},
        meaning="the request of the Responses API: `input`, `tools` and sampling parameters",
        written_by="the dataset",
        read_by="agents, exports, the viewer",
        forms=_EVERY,
        required=frozenset({Form.TASK, Form.SCORED}),
        since=CONTRACT,
    ),
    RowField(
        keys.AGENT_REF_KEY,
        _REFERENCE,
        meaning="the agent that attempts the task",
        written_by="the dataset, the plan",
        read_by="the collector, metrics, the viewer",
        forms=_EVERY,
        required=_EVERY,
        since=CONTRACT,
    ),
    RowField(
        keys.TASK_SOURCE_KEY,
        _TEXT,
        meaning="the server that declares the row's dataset; it routes the row",
        written_by="the dataset",
        read_by="the plan",
        forms=_EVERY,
        since=CONTRACT,
    ),
    RowField(
        keys.SKILLS_REF_KEY,
        {"type": "object"},
        meaning="the skills of the run",
        written_by="the plan",
        read_by="agents",
        forms=_EVERY,
        since=CONTRACT,
    ),
    RowField(
        keys.METADATA_KEY,
        {"type": "object"},
        meaning="what the verifier needs, such as the expected answer; members beside it are read alike",
        written_by="the dataset",
        read_by="the verifier",
        forms=_EVERY,
        since=CONTRACT,
    ),
    RowField(
        keys.RESPONSE_KEY,
        {"type": "object", "properties": {"output": {"type": "array", "items": {"type": "object"}}}},
        meaning="the Responses object with the output of all turns; token records are at its items",
        written_by="the agent",
        read_by="the verifier, exports, the viewer",
        forms=_RESULTS,
        required=_SCORED,
        since=CONTRACT,
    ),
    RowField(
        keys.REWARD_KEY,
        {"type": "number"},
        meaning="the score: finite, and no Boolean",
        written_by="the verifier",
        read_by="all",
        forms=_SCORED,
        required=_SCORED,
        since=CONTRACT,
    ),
    RowField(
        keys.REWARD_COMPONENTS_KEY,
        {"type": "object", "additionalProperties": {"type": "number"}},
        meaning="the parts that add up to the reward, by name",
        written_by="the verifier",
        read_by="metrics, exports",
        forms=_SCORED,
        since=CONTRACT,
    ),
    RowField(
        keys.OUTCOME_KEY,
        {"enum": [Outcome.COMPLETED.value, Outcome.TRUNCATED.value, Outcome.FAILED.value]},
        meaning="the outcome of the attempt",
        written_by="the episode driver, the collector",
        read_by="all",
        forms=_RESULTS,
        required=_RESULTS,
    ),
    RowField(
        keys.END_REASON_KEY,
        {"enum": [reason.value for reason in EndReason]},
        meaning="the reason why the policy loop ended",
        written_by="the episode driver",
        read_by="the closing table, exports, the viewer",
    ),
    RowField(
        keys.TIMING_KEY,
        {
            "type": "object",
            "properties": {
                **dict.fromkeys(PHASES, _SECONDS),
                "calls": {"type": "array", "items": _TIMED_CALL},
            },
        },
        meaning="seconds of the attempt by phase, their `total`, and each call of the policy loop",
        written_by="the episode driver",
        read_by="resumed runs, reports, the viewer",
    ),
    RowField(
        keys.USAGE_KEY,
        {"type": ["object", "null"]},
        meaning="the tokens that the engine counted, as in `response.usage`",
        written_by="the episode driver",
        read_by="trainers",
        forms=_SCORED,
    ),
    RowField(
        keys.SPENT_KEY,
        {"type": "object"},
        meaning="in a run with budgets or prices: calls and input, cached and output tokens of each model server",
        written_by="the collector",
        read_by="resumed runs, reports",
        since="1.2",
    ),
    RowField(
        keys.COST_KEY,
        {"type": "number", "minimum": 0},
        meaning="in a run with prices: the cost of these calls",
        written_by="the collector",
        read_by="metrics, reports, comparisons, the viewer",
        since="1.2",
    ),
    RowField(
        keys.MASKED_KEY,
        _FLAG,
        meaning="trainers skip the row; its score still counts in metrics",
        written_by="the episode driver (`on_truncation: mask`)",
        read_by="exports, the client, the viewer",
    ),
    RowField(
        keys.MASK_SAMPLE_KEY,
        _FLAG,
        meaning="the same",
        written_by="the verifier, the episode driver",
        read_by="exports, the client, the viewer",
        since=CONTRACT,
    ),
    RowField(
        keys.TAMPERABLE_KEY,
        _FLAG,
        meaning="the answer ran beside its verifier and could have forged the reward",
        written_by="the verifier",
        read_by="exports, the client",
        forms=_SCORED,
    ),
    RowField(
        keys.ANSWER_FAULT_KEY,
        _TEXT,
        meaning="the fault of an answer that broke its verifier, such as `raised` or `cpu_time`; the reward is at most "
        "0",
        written_by="the resources server",
        read_by="metrics, the viewer",
        forms=_SCORED,
    ),
    RowField(
        keys.ANSWER_FAULT_DETAIL_KEY,
        _TEXT,
        meaning="the text of that fault",
        written_by="the resources server",
        read_by="the viewer",
        forms=_SCORED,
    ),
    RowField(
        keys.SCORED_BY_KEY,
        _TEXT,
        meaning="in a run whose code or engine has changed: the digest of those that made the row, which the manifest "
        "lists",
        written_by="the collector",
        read_by="reports, comparisons, exports, merged runs",
        forms=_SCORED,
        since="1.1",
    ),
    RowField(
        keys.REPLAY_KEY,
        {
            "type": "object",
            "properties": {"calls_replayed": _INDEX, "calls_live": _INDEX, "seconds": _SECONDS},
        },
        meaning="the first calls of the attempt were answered from the record of another one: its `source`, the `mode` "
        "(`continue`, `fork`, `rewind`), the number of calls and of compared observations, the `noise` by class, and "
        "of tools the recorded results that were given (`tools_recorded`, `from_snapshot`)",
        written_by="the collector",
        read_by="forks, the viewer",
        forms=_SCORED,
        since="1.1",
    ),
    RowField(
        keys.FORK_KEY,
        {"type": "object", "properties": {"parent": _TEXT, "turn": {"type": "integer"}, "number": _INDEX}},
        meaning="the row is a fork: its `parent`, the `turn` up to which both are the same, its `number` and `group`",
        written_by="`gym fork`",
        read_by="exports, metrics, the viewer",
        forms=_SCORED,
        since="1.1",
    ),
    RowField(
        keys.REVERIFIED_KEY,
        {"type": "object", "properties": {"reward_before": {"type": ["number", "null"]}}},
        meaning="the row was verified again; the earlier reward, null if there was none",
        written_by="`ng_reverify`",
        read_by="`ng_reverify`, the viewer",
        forms=_SCORED,
    ),
    RowField(
        keys.FOREIGN_KEY,
        {"type": "object", "required": ["format", "agent", "tokens"]},
        meaning="another program made the trajectory; exports for training take it only if its `tokens` are `whole`",
        written_by="`ng_reverify`, `ng_view`",
        read_by="exports",
        forms=_SCORED,
        since="1.3",
    ),
    RowField(
        keys.FAILURE_KIND_KEY,
        {"type": ["string", "null"]},
        meaning="the kind of a failure that the verdict is about",
        written_by="the verifier",
        read_by="environment servers",
        since=CONTRACT,
    ),
    RowField(
        keys.FAILURE_REASON_KEY,
        {"type": ["string", "null"]},
        meaning="why the verdict is as it is, in words",
        written_by="the verifier",
        read_by="environment servers, the viewer",
        since=CONTRACT,
    ),
    RowField(
        keys.TOOL_ERRORS_KEY,
        _TOOL_ERRORS,
        meaning="the tool calls that failed, by tool and cause; `by` is whose fault it is, and `place` is `file:line`",
        written_by="agents",
        read_by="metrics, the closing table, the health check, the viewer",
        forms=_SCORED,
        since="1.1",
    ),
    RowField(
        keys.FAILURE_CLASS_KEY,
        _TEXT,
        meaning="the class by which failures are counted; a row that has it is never scored",
        written_by="the verifier, the collector",
        read_by="all",
        forms=_FAILURE,
        required=_FAILURE,
        since=CONTRACT,
    ),
    RowField(
        keys.FAILURE_KEY,
        _FAILURE_OBJECT,
        meaning="cause, place and remedy, as in an error answer",
        written_by="the collector",
        read_by="`gym eval failures`, the client, the viewer",
        forms=_FAILURE,
        required=_FAILURE,
    ),
    RowField(
        keys.TERMINAL_KEY,
        _FLAG,
        meaning="no other attempt at the rollout is made in this run",
        written_by="the verifier, the collector",
        read_by="resumed runs",
        forms=_FAILURE,
        required=_FAILURE,
        since=CONTRACT,
    ),
    RowField(
        keys.FAILED_AT_KEY,
        _SECONDS,
        meaning="when the collector got the failure, in seconds since 1970",
        written_by="the collector",
        read_by="the viewer",
        forms=_FAILURE,
    ),
    RowField(
        keys.JUDGE_ERROR_KEY,
        _TEXT,
        meaning="the error of the judge",
        written_by="the resources server",
        read_by="the collector",
        forms=_FAILURE,
        since=CONTRACT,
    ),
    _state_failure(keys.FAILURE_MESSAGE_KEY, "the text of a failure that a verifier reports"),
    _state_failure(keys.FAILURE_ERROR_KEY, "the same"),
    RowField(
        keys.NO_PERSIST_KEY,
        _FLAG,
        meaning="in an answer: write no row, the rollout counts as not attempted",
        written_by="agents, the verifier",
        read_by="the collector",
        forms=_FAILURE,
        since=CONTRACT,
    ),
)
