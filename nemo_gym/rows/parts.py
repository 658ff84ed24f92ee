"""The other members of a row: its request, response, agent and timing. Rows of any gym can be read, and odd ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import orjson

from nemo_gym.failures import InputError
from nemo_gym.json_objects import finite_number, member
from nemo_gym.names import FOLDER_DIGEST_KEY, FOREIGN_SOURCE_KEY, RESERVED_PREFIX, TASK_FOLDER_KEY
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.keys import (
    AGENT_REF_KEY,
    COST_KEY,
    FAILURE_KEY,
    FAILURE_REASON_KEY,
    FORK_KEY,
    METADATA_KEY,
    PARAMS_KEY,
    RESPONSE_KEY,
    REVERIFIED_KEY,
    SCORED_BY_KEY,
    SKILLS_REF_KEY,
    SPENT_KEY,
    TASK_SOURCE_KEY,
    TIMING_KEY,
)

__all__ = ["read_failure_reason", "read_params"]

Item: TypeAlias = Mapping[str, Any]
"""An item of a response's output."""
_ORIGIN = ("name", "dataset", "source", "license", "split", "version")
_ROUTING_KEYS = frozenset({PARAMS_KEY, AGENT_REF_KEY, TASK_SOURCE_KEY, SKILLS_REF_KEY})
TASK_KEYS = _ROUTING_KEYS | {METADATA_KEY, "best_reward"}
"""The keys of task rows that every environment has."""


def read_params(row: AnyRow) -> Mapping[str, Any]:
    """Return the request of a row, `responses_create_params`; empty without one."""
    params = row.get(PARAMS_KEY)
    return params if isinstance(params, Mapping) else {}


def read_response(row: AnyRow) -> Mapping[str, Any]:
    """Return the Responses object with the output of all turns; empty without one."""
    response = row.get(RESPONSE_KEY)
    return response if isinstance(response, Mapping) else {}


def read_output(row: AnyRow) -> Sequence[Item]:
    """Return the output items of a row's response; empty without a response."""
    response = row.get(RESPONSE_KEY)  # without `member`, which would be one more call in every rollout
    output = response.get("output") if isinstance(response, Mapping) else None
    if not isinstance(output, list):
        return []
    for item in output:
        if type(item) is not dict and not isinstance(item, Mapping):  # the first is a tenth of the second
            return []
    return output


def list_items(row: Any) -> list[Any]:
    """Return the output items of a parsed row. Raises LookupError or TypeError for another value."""
    items: list[Any] = row[RESPONSE_KEY]["output"]
    return items


def read_usage(row: AnyRow) -> Mapping[str, Any]:
    """Return the usage that the engine counted over all turns; empty without one."""
    usage = member(row, RESPONSE_KEY, "usage")
    return usage if isinstance(usage, Mapping) else {}


def read_spent(row: AnyRow) -> Mapping[str, Any]:
    """Return the calls and tokens of a rollout by model server; empty for a run without budgets and prices."""
    spent = row.get(SPENT_KEY)
    return spent if isinstance(spent, Mapping) else {}


def read_token_sum(counts: object) -> int | None:
    """Return the tokens of a model server in `read_spent`, of prompts and answers; None for another form."""
    if not isinstance(counts, Sequence) or len(counts) != 4:
        return None
    _, given, _, answered = counts
    return given + answered if type(given) is int and type(answered) is int else None


def add_spent(row: AnyRow, spent: Mapping[str, Sequence[int]], cost: float | None) -> dict[str, Any]:
    """Return a row with what it has spent, and its cost, if it is known."""
    told: dict[str, Any] = {SPENT_KEY: {server: [*counts] for server, counts in spent.items()}}
    return {**row, **told} if cost is None else {**row, **told, COST_KEY: cost}


def append_spent(line: bytes, spent: bytes, cost: float | None = None) -> bytes:
    """Return the JSON of a row with what it has spent, as JSON, and its cost, if it is known, as its last members."""
    members = b'"%b":%b' % (SPENT_KEY.encode(), spent)
    if cost is not None:
        members += b',"%b":%b' % (COST_KEY.encode(), orjson.dumps(cost))
    return b"%b,%b}" % (line.rstrip().removesuffix(b"}"), members)


def count_tokens(row: AnyRow) -> int | None:
    """Return the tokens of the prompts and answers of all turns, as the engine counted them; None without a count."""
    usage = read_usage(row)
    total = finite_number(usage.get("total_tokens"))
    if total is None:
        parts = [finite_number(usage.get(name)) for name in ("input_tokens", "output_tokens")]
        known = [part for part in parts if part is not None]
        total = sum(known) if known else None
    return int(total) if total else None  # engines that do not count write 0


def read_agent(row: AnyRow) -> str | None:
    """Return the name of the agent that a row names; None without one."""
    name = member(row, AGENT_REF_KEY, "name")
    return name if isinstance(name, str) and name else None


def require_agent(row: AnyRow) -> str:
    """Return the name of the agent that a row names. Raises `InputError` for a row that names none."""
    agent = read_agent(row)
    if agent is None:
        raise InputError(
            f"the row has no `{AGENT_REF_KEY}` with the `name` of an agent",
            code="no_agent",
            param=AGENT_REF_KEY,
            remedy="Name the agent that attempts the row.",
        )
    return agent


def read_agent_or_unknown(row: AnyRow) -> str:
    """Return the name under which the row's agent is counted, `unknown` for a row that names none."""
    return read_agent(row) or "unknown"


def read_failed_servers(row: AnyRow) -> list[str] | None:
    """Return the servers on the way of a row's failure, nearest to the root cause first; None without a failure."""
    if not isinstance(row.get(FAILURE_KEY), Mapping):
        return None
    peer, hops = member(row, FAILURE_KEY, "peer"), member(row, FAILURE_KEY, "hops")
    return [str(name) for name in (peer, *(hops if isinstance(hops, list) else ())) if name is not None]


def read_task_source(row: AnyRow) -> str:
    """Return the server that declares the dataset of a task row; empty without one."""
    return str(row.get(TASK_SOURCE_KEY) or "")


def read_task_origin(row: AnyRow) -> dict[str, str]:
    """Return the digest, dataset, source, licence, split and version of a row's task folder, or of its foreign
    environment; empty without one."""
    folder, foreign = row.get(TASK_FOLDER_KEY), row.get(FOREIGN_SOURCE_KEY)
    if isinstance(folder, Mapping):
        found = {"digest": row.get(FOLDER_DIGEST_KEY), **{name: folder.get(name) for name in _ORIGIN}}
    elif isinstance(foreign, Mapping):
        found = {name: foreign.get(name) for name in ("kind", "digest", *_ORIGIN)}
    else:
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def read_failure_reason(row: AnyRow) -> str | None:
    """Return the verifier's reason for its verdict, in words; None without one."""
    reason = row.get(FAILURE_REASON_KEY)
    return None if reason is None else str(reason)


def read_code(row: AnyRow) -> str | None:
    """Return the digest of the code that scored the row; None for a row of its run's first code."""
    code = row.get(SCORED_BY_KEY)
    return None if code is None else str(code)


def read_reverification(row: AnyRow) -> Mapping[str, Any] | None:
    """Return the mark of a row that was verified again, with `reward_before`; None for other rows."""
    mark = row.get(REVERIFIED_KEY)
    return mark if isinstance(mark, Mapping) else None


def read_timing(row: AnyRow) -> Mapping[str, Any]:
    """Return the times of a row (`nemo_gym.rows.timing`); empty without them."""
    timing = row.get(TIMING_KEY)
    return timing if isinstance(timing, Mapping) else {}


def is_reserved(key: str) -> bool:
    """Return whether the gym defines the key."""
    return key.startswith(RESERVED_PREFIX)


def read_task_data(row: AnyRow) -> dict[str, Any]:
    """Return the members that only the environment reads: neither the request nor the agent, source or skills."""
    return {key: row[key] for key in row if key not in _ROUTING_KEYS and not is_reserved(key)}


def read_verifier_metadata(row: AnyRow) -> Mapping[str, Any]:
    """Return `verifier_metadata`, in which some environments keep what their verifier needs; empty without it."""
    metadata = row.get(METADATA_KEY)
    return metadata if isinstance(metadata, Mapping) else {}


def read_fork_group(row: AnyRow) -> str:
    """Return the group of a fork, which names its parent and turn; empty for another rollout."""
    return str(member(row, FORK_KEY, "group") or "")
