"""Requests of trainers beside the rollouts of rows: agents by source, repeats, a time limit, failures as rows.

The names and the forms of the rows are those of the ecosystem's release 0.7.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

from nemo_gym.clock import monotonic
from nemo_gym.config.problems import ConfigErrors, Problem, did_you_mean
from nemo_gym.protocol.failure_kinds import AGENT_RUN_ERROR
from nemo_gym.rollouts.plan.plan import plan_attempts
from nemo_gym.rollouts.plan.routing import Routing
from nemo_gym.rollouts.plan.task_rows import FaultyRowError, TaskShaper
from nemo_gym.rollouts.run.dispatch_budget import DispatchLatencyTracker
from nemo_gym.rollouts.run.required_servers import list_server_users, runs_rows
from nemo_gym.rows.compose import assign_agent, compose_unattempted_row
from nemo_gym.rows.forms import AnyRow, FailureRow, TaskRow
from nemo_gym.rows.parts import read_agent, read_task_source

_REQUEST_FAILED = "agent_request_failed"
_CANCELLED = "cancelled"
_DID_NOT_RUN = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
_MOST_BODY_CHARACTERS = 2_000


def find_agents(rows: Iterable[AnyRow], config: Mapping[str, Any]) -> dict[str, str]:
    """Return the agent of each `task_source` of the rows that name no agent.

    It is the source itself, if that attempts rows, or the only agent that uses it. Raises `ConfigErrors` with every
    source that has none or several.
    """
    users, found, problems = list_server_users(config), dict[str, str](), []
    for source in sorted({read_task_source(row) for row in rows if not read_agent(row)} - {""}):
        known = [source] if runs_rows(config.get(source)) else users.get(source, [])
        if len(known) == 1:
            found[source] = known[0]
            continue
        what = (
            f"is used by several agents: {', '.join(sorted(known))}" if known else "is no source of an agent"
        )
        remedy = (
            f"Pass agent_map={{{source!r}: <agent>}} to preprocess_examples."
            if known
            else did_you_mean(source, users)
        )
        problems.append(Problem(None, f"The `task_source` {source!r} {what}.", remedy))
    if problems:
        raise ConfigErrors(problems)
    return found


def assign_agents(
    examples: Iterable[AnyRow], config: Mapping[str, Any], server: str | None = None
) -> list[TaskRow]:
    """Return the rows with their agents, which are also set in place. `server` is the agent of all rows, if given.

    Raises `ConfigErrors` for sources without one agent. A row with neither agent nor source stays as it is.
    """
    given = list(examples)
    agents = find_agents(given, config) if server is None else {}
    for row in given:
        agent = server or (None if read_agent(row) else agents.get(read_task_source(row)))
        if agent is not None and isinstance(row, MutableMapping):
            row.update(assign_agent(TaskRow(dict(row)), agent))
    return [TaskRow(dict(row)) for row in given]


def repeat_examples(
    examples: Sequence[AnyRow], routing: Routing, num_repeats: int, *, add_seed: bool
) -> list[TaskRow]:
    """Return numbered copies of the rows for their agents and repeats. Raises `ConfigErrors` with all faulty rows."""
    shaper, repeated, problems = TaskShaper(needs_seed=add_seed, routing=routing), [], []
    for index, row in enumerate(examples):
        try:
            copies = shaper.tasks(orjson.dumps(dict(row)), num_repeats)
        except FaultyRowError as error:
            problems.append(Problem(None, f"Row {index}: {error}"))
            continue
        repeated += [orjson.loads(attempt.row) for attempt in plan_attempts(index, copies, add_seed)]
    if problems:
        raise ConfigErrors(problems)
    return repeated


@dataclass(frozen=True, slots=True)
class StartLimit:
    """The time after which no row is started."""

    budget_s: float | None = None
    margin_s: float | None = None
    """Seconds before the end of the time; by default those in which three quarters of the rollouts have finished."""
    tracker: DispatchLatencyTracker = field(default_factory=DispatchLatencyTracker)
    began: float = field(default_factory=monotonic)

    def drain_row(self) -> FailureRow | None:
        """Return the row of a rollout that is not started any more; None if there is time for it."""
        if self.budget_s is None:
            return None
        left, margin = self.began + self.budget_s - monotonic(), self.tracker.drain_margin(self.margin_s)
        if left > 0 and left >= (margin or 0):
            return None
        self.tracker.record_drained()
        why = f"{left:.0f} s of {self.budget_s:g} s are left, and a rollout needs {margin or 0:.0f} s"
        return compose_unattempted_row(_CANCELLED, f"not started: {why}", may_persist=False)


def build_request_failure(error: Exception, *, raises: bool) -> FailureRow:
    """Return the row of a call of `/run` that failed, without a reward; with `raises`, raise the error.

    Its class is `agent_run_error` if the agent answered, so that the rollout ran, and `agent_request_failed` if nothing
    is known of the rollout.
    """
    if raises:
        raise error
    status, body = getattr(error, "status", None), getattr(error, "response_content", None)
    has_run = status is not None and body is not None and status not in _DID_NOT_RUN
    text = body.decode(errors="replace")[:_MOST_BODY_CHARACTERS] if isinstance(body, bytes) else ""
    message = f"{type(error).__name__}: {error}" + (f" ({text})" if text and text not in str(error) else "")
    failure_class = AGENT_RUN_ERROR if has_run else _REQUEST_FAILED
    return compose_unattempted_row(failure_class, message, may_persist=True)
