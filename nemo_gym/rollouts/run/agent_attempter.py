"""Attempts by agent servers: `POST /run` with the task row returns the scored row."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import orjson

from nemo_gym.clock import rollout_time
from nemo_gym.failures import Boundary, Failure, GymError
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult
from nemo_gym.rollouts.run.options import RunLimits
from nemo_gym.transport import Caller, Deadline, Reply, read_reply_failure
from nemo_gym.transport.context import CONTROLLED_HEADER, LISTS, SESSION_HEADER, TOKENS_HEADER

if TYPE_CHECKING:
    from nemo_gym.rollouts.run.budgets import Budgets

_CONTROLLED = {CONTROLLED_HEADER: "1"}
_CONTROLLED_WITH_LISTS = {**_CONTROLLED, TOKENS_HEADER: LISTS}
_QUOTED_CHARACTERS = 500
_LONGEST_HEAD_START_S = 2.0
_TRANSIENT_STATUSES = frozenset({408, 425, 429})


class AgentAttempter:
    """Calls the agent of a planned attempt."""

    def __init__(
        self,
        caller: Caller,
        *,
        timeout_s: float | None = None,
        budgets: Budgets | None = None,
        takes_lists: bool = False,
    ) -> None:
        """`timeout_s`: time limit of an attempt in seconds. `budgets`: those of the run, if it has any.
        `takes_lists`: token ids may be in lists in the rows of results, though not in their lines.

        A slightly shorter limit is propagated to agents, so that they can close the session and report the cause.
        """
        self._caller = caller
        self._budgets = budgets
        self._headers = _CONTROLLED_WITH_LISTS if takes_lists else _CONTROLLED
        self._set_timeout(timeout_s)

    def tune(self, limits: RunLimits) -> None:
        """Use the time limit of `limits` for the attempts that start from now on."""
        self._set_timeout(limits.rollout_timeout_s)

    def _set_timeout(self, timeout_s: float | None) -> None:
        self._propagated_s: float | None = None
        if timeout_s is not None:
            self._propagated_s = timeout_s - min(_LONGEST_HEAD_START_S, 0.05 * timeout_s)

    async def attempt(
        self, task: PlannedAttempt, session: str | None = None, *, continues: bool = False
    ) -> AttemptResult:
        """Make an attempt. `session`: its name, if the caller gives it one. `continues`: it replays an earlier one."""
        propagated = Deadline.after(self._propagated_s) if self._propagated_s is not None else None
        budgets, began = self._budgets, 0.0 if self._budgets is None else rollout_time()
        try:
            reply = await self._caller.call(
                task.agent,
                "POST",
                "/run",
                body=task.body(),
                headers=self._build_headers(task, session, continues=continues),
                session=session,
                propagated=propagated,
            )
        except (GymError, asyncio.CancelledError) as error:
            if budgets is not None:
                budgets.note_lost(task, began)
            if isinstance(error, GymError):
                return error.failure
            raise
        result = read_reply(reply, task.agent)
        return result if budgets is None else budgets.note_reply(task, reply, result, began)

    def _build_headers(self, task: PlannedAttempt, session: str | None, *, continues: bool) -> dict[str, str]:
        """Return the headers of an attempt: that its run has a control, its name and its budget, if it has any."""
        if session is None and self._budgets is None:
            return self._headers
        named = self._headers if session is None else self._headers | {SESSION_HEADER: session}
        return (
            named if self._budgets is None else named | self._budgets.build_headers(task, continues=continues)
        )


def read_reply(reply: Reply, agent: str) -> AttemptResult:
    """Return the row or the failure in an agent's answer."""
    if not reply.ok:
        passed_on = read_reply_failure(reply)
        return passed_on.add_hop(agent) if passed_on else _foreign_failure(reply, agent)
    try:
        row = orjson.loads(reply.body)
    except orjson.JSONDecodeError as error:
        return _not_a_row(agent, f"is not JSON ({error}): {_quote(reply)}")
    if not isinstance(row, dict):
        return _not_a_row(agent, f"is not a JSON object: {_quote(reply)}")
    return AgentAnswer(row, reply.body)


def _foreign_failure(reply: Reply, agent: str) -> Failure:
    """The failure for an error answer without the gym's envelope, from a third-party agent or a proxy."""
    return Failure(
        boundary=Boundary.AGENT,
        code=f"http_{reply.status}",
        message=f"agent `{agent}` answered HTTP {reply.status}: {_quote(reply)}",
        retryable=reply.status >= 500 or reply.status in _TRANSIENT_STATUSES,
        remedy=f"See the log of `{agent}`.",
        peer=agent,
    )


def _not_a_row(agent: str, problem: str) -> Failure:
    return Failure(
        boundary=Boundary.AGENT,
        code="not_a_row",
        message=f"the answer of agent `{agent}` {problem}",
        remedy="`/run` must return a JSON object: the task row with `response` and `reward`.",
        peer=agent,
    )


def _quote(reply: Reply) -> str:
    text = reply.body[:_QUOTED_CHARACTERS].decode(errors="replace").strip()
    return text or "an empty body"
