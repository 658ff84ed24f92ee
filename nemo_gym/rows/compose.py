"""Puts rows together. The order of members is part of the files, so it is decided here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import orjson

from nemo_gym.failures import JUDGE_FAILED, Failure, Outcome
from nemo_gym.names import OBSERVATIONS_KEY, OUTPUT_ERROR_KEY, RESERVED_PREFIX
from nemo_gym.rows.forms import AnyRow, FailureRow, ScoredRow, TaskRow
from nemo_gym.rows.identity import RolloutId, identity_in
from nemo_gym.rows.keys import (
    AGENT_REF_KEY,
    ANSWER_FAULT_DETAIL_KEY,
    ANSWER_FAULT_KEY,
    ATTEMPT_INDEX_KEY,
    COST_KEY,
    END_REASON_KEY,
    FAILED_AT_KEY,
    FAILURE_CLASS_KEY,
    FAILURE_ERROR_KEY,
    FAILURE_KEY,
    FAILURE_KIND_KEY,
    FAILURE_MESSAGE_KEY,
    FAILURE_PREFIX,
    FAILURE_REASON_KEY,
    FOREIGN_KEY,
    FORK_KEY,
    JUDGE_ERROR_KEY,
    MASK_SAMPLE_KEY,
    MASKED_KEY,
    METADATA_KEY,
    NO_PERSIST_KEY,
    OUTCOME_KEY,
    PARAMS_KEY,
    REPLAY_KEY,
    RESPONSE_KEY,
    REVERIFIED_KEY,
    REWARD_COMPONENTS_KEY,
    REWARD_KEY,
    ROLLOUT_INDEX_KEY,
    SCORED_BY_KEY,
    SKILLS_REF_KEY,
    SPENT_KEY,
    TASK_INDEX_KEY,
    TERMINAL_KEY,
    TIMING_KEY,
    TOOL_ERRORS_KEY,
    USAGE_KEY,
    VERSION_KEY,
)
from nemo_gym.rows.parts import read_output, read_params, read_response
from nemo_gym.rows.tool_errors import FailedCall
from nemo_gym.rows.verdict import EndReason, read_policy_outcome
from nemo_gym.rows.version import ROW_VERSION

__all__ = ["attach_response", "compose_task_row", "note_failed_call", "replace_params"]

_NOT_AGGREGATED = frozenset({PARAMS_KEY, RESPONSE_KEY, OBSERVATIONS_KEY})
_AGGREGATED_OF_RESPONSE = ("usage", "incomplete_details")

AGENT_TYPE = "responses_api_agents"
"""The type that a row's reference to its agent has."""
STATED_FAILURE_KEYS = frozenset(
    {
        FAILURE_CLASS_KEY,
        JUDGE_ERROR_KEY,
        FAILURE_MESSAGE_KEY,
        FAILURE_ERROR_KEY,
        TERMINAL_KEY,
        NO_PERSIST_KEY,
    }
)
"""The keys of the gym that a verifier may set: those by which it reports a failure."""
RESULT_MARKS = STATED_FAILURE_KEYS | {
    OUTCOME_KEY,
    END_REASON_KEY,
    TIMING_KEY,
    USAGE_KEY,
    SPENT_KEY,
    COST_KEY,
    MASKED_KEY,
    SCORED_BY_KEY,
    REPLAY_KEY,
    FORK_KEY,
    REVERIFIED_KEY,
    FOREIGN_KEY,
    TOOL_ERRORS_KEY,
    FAILURE_KEY,
    FAILED_AT_KEY,
}
"""The keys of the gym that only results have. A task row that is posted to an agent cannot bring them along."""
_MOST_CAUSES = 20
"""The groups of failed tool calls in a row."""
_RESULT_KEYS = frozenset(
    {
        RESPONSE_KEY,
        REWARD_KEY,
        REWARD_COMPONENTS_KEY,
        MASK_SAMPLE_KEY,
        FAILURE_KIND_KEY,
        FAILURE_REASON_KEY,
    }
)
"""The members that verifying adds to a row."""


def number_row(row: AnyRow, identity: RolloutId) -> dict[str, Any]:
    """Return a row with an identity, which comes first."""
    members = {TASK_INDEX_KEY: identity.task, ROLLOUT_INDEX_KEY: identity.repeat}
    return {**members, **row, **members}


def ensure_identity(row: AnyRow, identity: RolloutId) -> AnyRow:
    """Return a row with an identity: the row itself if it states one."""
    return row if identity_in(row) is not None else number_row(row, identity)


def number_task(row: AnyRow, task: int) -> TaskRow:
    """Return a task row with the task's index, which comes first."""
    return TaskRow({TASK_INDEX_KEY: task, **row})


def compose_task_row(
    prompt: str | list[dict[str, Any]],
    *,
    row_id: object = None,
    metadata: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    **data: Any,
) -> TaskRow:
    """Return a task row. `prompt` is the request's input, `params` are its other members, such as `tools`.

    `row_id` becomes `id`, and `metadata` becomes `verifier_metadata`. `data` are members that the environment reads.
    """
    named = {} if row_id is None else {"id": row_id}
    verified = {} if metadata is None else {METADATA_KEY: dict(metadata)}
    return TaskRow({**named, PARAMS_KEY: {"input": prompt, **(params or {})}, **verified, **data})


def name_agent(agent: str) -> dict[str, Any]:
    """Return the member of a row that names its agent."""
    return {AGENT_REF_KEY: {"type": AGENT_TYPE, "name": agent}}


def assign_agent(row: AnyRow, agent: str) -> TaskRow:
    """Return a task row for an agent."""
    return TaskRow({**row, **name_agent(agent)})


def assign_skills(row: AnyRow, skills: Mapping[str, Any]) -> TaskRow:
    """Return a task row that names the skills of its run."""
    return TaskRow({**row, SKILLS_REF_KEY: skills})


def replace_params(row: AnyRow, params: Mapping[str, Any]) -> TaskRow:
    """Return a task row with another request."""
    return TaskRow({**row, PARAMS_KEY: params})


def attach_response(row: AnyRow, response: Any) -> dict[str, Any]:
    """Return the body of a verify request: a task row and the policy's response."""
    return {**row, RESPONSE_KEY: response}


def attach_metadata(row: AnyRow, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task row with other metadata for its verifier."""
    return {**row, METADATA_KEY: dict(metadata)}


def attach_reward(row: AnyRow, reward: float) -> dict[str, Any]:
    """Return a row with the reward that an attempt got outside of a run."""
    return {**row, REWARD_KEY: reward}


def compose_scored_row(
    task: AnyRow,
    score: Mapping[str, Any],
    notes: Mapping[str, Any],
    *,
    response: Mapping[str, Any],
    end_reason: EndReason,
    timing: Mapping[str, float],
    calls: Sequence[tuple[str, str, float]] = (),
) -> ScoredRow:
    """Return the row of an attempt with a verdict. `notes` are the agent's own members.

    `timing` has seconds by phase, `calls` have server, path and seconds (`nemo_gym.rows.timing`).
    The request and the response are the original ones: the verifier's typed copies may differ in details.
    """
    row: Any = {
        **task,
        **score,
        **notes,
        PARAMS_KEY: task[PARAMS_KEY],
        RESPONSE_KEY: response,
        OUTCOME_KEY: end_reason.outcome.value,
        END_REASON_KEY: end_reason.value,
        TIMING_KEY: {**{phase: round(seconds, 6) for phase, seconds in timing.items()}, "calls": calls},
        USAGE_KEY: response.get("usage"),
        VERSION_KEY: ROW_VERSION,
    }
    scored: ScoredRow = row  # a call of the type would be one more in every rollout
    return scored


def take_items(row: AnyRow) -> tuple[dict[str, Any], list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return a row without its items, and those of its request and of its response. A text is one message."""
    rest, params, output = dict(row), read_params(row), list(read_output(row))
    given = params.get("input")
    if isinstance(given, str):
        rest[PARAMS_KEY] = {**params, "input": ""}
        given = [{"role": "user", "content": given}]
    elif isinstance(given, list) and all(isinstance(item, Mapping) for item in given):
        rest[PARAMS_KEY] = {**params, "input": []}
    else:
        given = []
    if output:
        rest[RESPONSE_KEY] = {**read_response(row), "output": []}
    return rest, given, output


def put_items(rest: AnyRow, given: list[Any], output: list[Any]) -> dict[str, Any]:
    """Return the row that `take_items` was given."""
    row = dict(rest)
    if given:
        is_text = row[PARAMS_KEY]["input"] == ""
        row[PARAMS_KEY] = {**row[PARAMS_KEY], "input": given[0]["content"] if is_text else given}
    if output:
        row[RESPONSE_KEY] = {**row[RESPONSE_KEY], "output": output}
    return row


def compose_foreign_row(
    params: Mapping[str, Any],
    response: Mapping[str, Any],
    agent: str,
    reward: float | None,
    about: Mapping[str, Any],
) -> AnyRow:
    """Return the row of a trajectory that another program made, with the mark `about` it.

    `about["tokens"]` is `whole` if every model call has its tokens.
    """
    return {
        PARAMS_KEY: params,
        **name_agent(agent),
        RESPONSE_KEY: response,
        **({} if reward is None else {REWARD_KEY: reward, OUTCOME_KEY: Outcome.COMPLETED.value}),
        FOREIGN_KEY: dict(about),
        VERSION_KEY: ROW_VERSION,
    }


def compose_failure_row(
    identity: RolloutId,
    attempt: int,
    agent: str,
    failure: Failure,
    failure_class: str,
    *,
    answer: AnyRow,
    is_terminal: bool,
    failed_at: float | None = None,
) -> FailureRow:
    """Return the row of a failed attempt, without a reward.

    `answer` is the agent's answer, empty without one. `failed_at` is the time in seconds since 1970.
    """
    row: dict[str, Any] = {
        **identity.members(),
        ATTEMPT_INDEX_KEY: attempt,
        FAILURE_CLASS_KEY: failure_class,
        TERMINAL_KEY: is_terminal,
        OUTCOME_KEY: Outcome.FAILED,
        **name_agent(agent),
        FAILURE_KEY: failure.to_wire()["error"],
    }
    if failed_at is not None:
        row[FAILED_AT_KEY] = failed_at
    return FailureRow(row | {key: answer[key] for key in answer if key not in row and key != REWARD_KEY})


def compose_unattempted_row(failure_class: str, message: str, *, may_persist: bool) -> FailureRow:
    """Return the result of a row without an answer of its agent, for a trainer that wants rows and no exceptions."""
    marks = {} if may_persist else {NO_PERSIST_KEY: True}
    return FailureRow({FAILURE_CLASS_KEY: failure_class, FAILURE_MESSAGE_KEY: message, **marks})


def compose_reverified_row(
    task: AnyRow, stored: AnyRow, verdict: Mapping[str, Any], *, reward_before: float | None
) -> ScoredRow:
    """Return the stored row with a new verdict. `task` is the row that the agent got."""
    marks = {
        key: stored[key]
        for key in stored
        if key.startswith(RESERVED_PREFIX) and not key.startswith(FAILURE_PREFIX) and key != SCORED_BY_KEY
    }
    return ScoredRow(
        {
            **task,
            **select_score(verdict),
            PARAMS_KEY: stored[PARAMS_KEY],
            RESPONSE_KEY: stored[RESPONSE_KEY],
            **marks,
            OUTCOME_KEY: read_policy_outcome(stored).value,
            REVERIFIED_KEY: {"reward_before": reward_before},
            VERSION_KEY: ROW_VERSION,
        }
    )


def select_score(verdict: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a verifier's answer that enter the row.

    A verifier adds members of its own. Of the gym's it may set only those that report a failure: none of its members
    changes the identity, the outcome, the tokens or the timing of an attempt.
    """
    return {name: value for name, value in verdict.items() if _may_set(name, value)}


def _may_set(name: str, value: object) -> bool:
    if name in STATED_FAILURE_KEYS:
        return value not in (None, "")
    return not name.startswith(RESERVED_PREFIX) and name != AGENT_REF_KEY


def drop_result(row: AnyRow) -> TaskRow:
    """Return the task of a stored row: the row without its result and without the gym's marks."""
    return TaskRow(
        {key: row[key] for key in row if key not in _RESULT_KEYS and not key.startswith(RESERVED_PREFIX)}
    )


def drop_marks(row: AnyRow) -> TaskRow:
    """Return a task row without the marks of an earlier result."""
    return TaskRow({key: row[key] for key in row if key not in RESULT_MARKS})


def add_replay(row: AnyRow, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with what its replay was."""
    return {**row, REPLAY_KEY: dict(about)}


def add_fork(row: AnyRow, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the parent of which it is a fork."""
    return {**row, FORK_KEY: dict(about)}


def append_replay(line: bytes, about: Mapping[str, Any]) -> bytes:
    """Return the JSON of a row with what its replay was. The rest of its bytes stays as it is."""
    return line.rstrip()[:-1] + b"," + orjson.dumps({REPLAY_KEY: about})[1:]


def drop_reserved(row: AnyRow) -> TaskRow:
    """Return a task row without the keys of the gym."""
    return TaskRow({key: row[key] for key in row if not key.startswith(RESERVED_PREFIX)})


def select_request(row: AnyRow) -> TaskRow:
    """Return the members that every stored row keeps of its task: the request and the agent."""
    return TaskRow({key: row[key] for key in (PARAMS_KEY, AGENT_REF_KEY) if key in row})


def fail_row(row: AnyRow, failure_class: str) -> FailureRow:
    """Return the failure row of a stored row whose reward does not count."""
    kept = {key: row[key] for key in row if key != REWARD_KEY}
    failed = {FAILURE_CLASS_KEY: failure_class, TERMINAL_KEY: True, OUTCOME_KEY: Outcome.FAILED}
    return FailureRow(kept | failed)


def mark_failed_output(item: Mapping[str, Any], failed: FailedCall) -> dict[str, Any]:
    """Return an output item with the mark that the call failed."""
    return {**item, OUTPUT_ERROR_KEY: failed.to_json()}


def note_failed_call(notes: MutableMapping[str, Any], failed: FailedCall) -> None:
    """Count a failed tool call in an agent's members of a row. Rare causes beyond 20 are counted in the last group."""
    groups: list[dict[str, Any]] = notes.setdefault(TOOL_ERRORS_KEY, [])
    keys = [known.cause_key for group in groups if (known := FailedCall.from_json(group))]
    if failed.cause_key in keys:
        group = groups[keys.index(failed.cause_key)]
    elif len(groups) < _MOST_CAUSES:
        group = {**failed.to_json(), "count": 0}
        groups.append(group)
    else:
        group = groups[-1]
    group["count"] += 1


def mask(score: Mapping[str, Any]) -> dict[str, Any]:
    """Return a score that trainers skip."""
    return {**score, MASKED_KEY: True, MASK_SAMPLE_KEY: True}


def zero(score: Mapping[str, Any]) -> dict[str, Any]:
    """Return a score with the reward 0."""
    return {**score, REWARD_KEY: 0.0}


def fail_judge(request: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """Return a verifier's answer to `request` after its judge failed for `reason`.

    Its members exclude the row for trainers of other gyms, which read it directly.
    """
    return {
        **request,
        REWARD_KEY: 0.0,
        FAILURE_CLASS_KEY: JUDGE_FAILED,
        JUDGE_ERROR_KEY: reason,
        MASK_SAMPLE_KEY: True,
        FAILURE_KIND_KEY: JUDGE_FAILED,
        FAILURE_REASON_KEY: reason,
    }


def score_fault(verdict: Mapping[str, Any], kind: str, detail: str) -> dict[str, Any]:
    """Return the verdict on an answer that broke its verifier, from the verdict on an attempt without output.

    Its reward is at most 0.
    """
    reason = {FAILURE_KIND_KEY: None} if FAILURE_KIND_KEY in verdict else {}  # that of the other attempt
    marks = {
        **reason,
        FAILURE_REASON_KEY: f"{kind}: {detail}",
        ANSWER_FAULT_KEY: kind,
        ANSWER_FAULT_DETAIL_KEY: detail,
    }
    if verdict[REWARD_KEY] <= 0:
        return {**verdict, **marks}
    components = verdict.get(REWARD_COMPONENTS_KEY)
    silenced = {REWARD_COMPONENTS_KEY: dict.fromkeys(components, 0.0)} if isinstance(components, dict) else {}
    return {**verdict, **silenced, REWARD_KEY: 0.0, **marks}


def select_aggregated(row: AnyRow) -> AnyRow:
    """Return a row without its request, and of its response the usage and the reason why it is incomplete."""
    verdict = {name: value for name, value in row.items() if name not in _NOT_AGGREGATED}
    response = read_response(row)
    about = {name: response[name] for name in _AGGREGATED_OF_RESPONSE if response.get(name) is not None}
    return {**verdict, RESPONSE_KEY: about} if about else verdict


def replace_output(row: AnyRow, output: Sequence[Mapping[str, Any]]) -> ScoredRow:
    """Return a row with other items in its response."""
    return ScoredRow({**row, RESPONSE_KEY: {**read_response(row), "output": output}})
