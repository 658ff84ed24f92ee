"""Verifies a stored rollout again: its environment scores the stored response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from nemo_gym import clock
from nemo_gym.episodes.driver import EndReason, failure_of
from nemo_gym.episodes.verifier_fields import verifier_fields
from nemo_gym.failures import Boundary, ConfigError, Failure, GymError, error_of
from nemo_gym.json_objects import member
from nemo_gym.names import (
    END_REASON_KEY,
    OUTCOME_KEY,
    PARAMS_KEY,
    RESERVED_PREFIX,
    ROLLOUT_INDEX_KEY,
    SCORED_BY_KEY,
    TASK_INDEX_KEY,
)
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.plan.identity import RolloutId, identity_at
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult, outcome_of
from nemo_gym.serving.rows import ReverifyMode
from nemo_gym.transport import Caller, Deadline
from nemo_gym.transport.context import SESSION_HEADER
from nemo_gym.transport.directory import server_block
from nemo_gym.transport.server_client import ServerReply

REVERIFIED_KEY: Final = "_ng_reverified"
"""In a row: marks a new reward and holds the earlier one (`reward_before`, null if there was none)."""
_FAILURE_PREFIX = "_ng_failure"
_RESULT_KEYS = frozenset(
    {"response", "reward", "reward_components", "mask_sample", "failure_kind", "failure_reason"}
)
"""The keys that verifying adds to a row; removed from rows whose task row is missing."""


def environment_of(agent: str, config: Mapping[str, Any]) -> str:
    """Return the resources server that verifies the agent's rollouts. Raises `ConfigError` if there is none."""
    name = member(server_block(config.get(agent)), "resources_server", "name")
    if not isinstance(name, str):
        raise ConfigError(
            f"agent `{agent}` has no `resources_server` to verify its rollouts",
            code="no_resources_server",
            remedy="Use the configuration that the rollouts were collected with.",
        )
    return name


async def read_modes(caller: Caller, environments: Iterable[str]) -> dict[str, ReverifyMode]:
    """Return the reverify mode of each environment; `UNKNOWN` for those without the route."""
    modes = {}
    for name in sorted(set(environments)):
        reply = await caller.call(name, "GET", "/reverify_mode", repeatable=True)
        mode = reply.json() if reply.ok else None
        modes[name] = ReverifyMode(mode) if mode in set(ReverifyMode) else ReverifyMode.UNKNOWN
    return modes


@dataclass(frozen=True, slots=True)
class Reverifier:
    """An `Attempter` that verifies the rollouts of a stored run instead of calling agents."""

    run: StoredRun
    caller: Caller
    config: Mapping[str, Any]
    modes: Mapping[str, ReverifyMode]
    judge_failed_only: bool = False
    timeout_s: float | None = None

    async def attempt(self, task: PlannedAttempt) -> AttemptResult:
        is_scored = task.identity in self.run.scored
        line = (self.run.scored if is_scored else self.run.failures).line_of(task.identity)
        stored = orjson.loads(line)
        if self.judge_failed_only and is_scored:
            identified = {
                TASK_INDEX_KEY: task.identity.task,
                ROLLOUT_INDEX_KEY: task.identity.repeat,
                **stored,
            }
            return AgentAnswer(identified, line if identity_at(line) else None)
        environment = environment_of(task.agent, self.config)
        try:
            verified = await self._verify(environment, task, stored)
        except GymError as error:
            return error.failure
        return AgentAnswer(
            verified_row(task, stored, verified, reward_before=stored["reward"] if is_scored else None)
        )

    async def _verify(
        self, environment: str, task: PlannedAttempt, stored: Mapping[str, Any]
    ) -> dict[str, Any]:
        body = {**orjson.loads(task.row), PARAMS_KEY: stored[PARAMS_KEY], "response": stored["response"]}
        session = clock.hex_id()
        if self.modes[environment] is ReverifyMode.STATELESS:
            return await self._post(environment, "/verify", body, session)
        await self._post(environment, "/seed_session", body, session)
        try:
            return await self._post(environment, "/verify", body, session)
        finally:
            await self._post(environment, "/close_session", {}, session)

    async def _post(self, server: str, path: str, body: Any, session: str) -> dict[str, Any]:
        """Return the JSON object of the answer. Raises the failure of an error answer."""
        reply = await self.caller.call(
            server,
            "POST",
            path,
            body=orjson.dumps(body),
            headers={SESSION_HEADER: session},
            session=session,
            deadline=None if self.timeout_s is None else Deadline.after(self.timeout_s),
            repeatable=True,
        )
        if not reply.ok:
            raise error_of(failure_of(ServerReply(reply, "POST", server), server, f"answer {path}"))
        answer = reply.json()
        if not isinstance(answer, dict):
            message = f"the answer of `{server}` to {path} is not a JSON object"
            raise error_of(Failure(Boundary.VERIFIER, "not_an_object", message, peer=server))
        return answer


def verified_row(
    task: PlannedAttempt,
    stored: Mapping[str, Any],
    verified: Mapping[str, Any],
    *,
    reward_before: float | None,
) -> dict[str, Any]:
    """Return the stored row with the new verdict."""
    marks = {
        key: value
        for key, value in stored.items()
        if key.startswith(RESERVED_PREFIX) and not key.startswith(_FAILURE_PREFIX) and key != SCORED_BY_KEY
    }
    return {
        **orjson.loads(task.row),
        **verifier_fields(verified),
        PARAMS_KEY: stored[PARAMS_KEY],
        "response": stored["response"],
        **marks,
        OUTCOME_KEY: _outcome_of_attempt(stored),
        REVERIFIED_KEY: {"reward_before": reward_before},
    }


def task_row_of(run: StoredRun, identity: RolloutId) -> bytes:
    """Return the row sent to the agent; if it is missing, the stored row without its results."""
    if identity in run.tasks:
        return run.tasks.line_of(identity)
    stored = (run.scored if identity in run.scored else run.failures).row(identity)
    kept = {
        key: value
        for key, value in stored.items()
        if key not in _RESULT_KEYS and not key.startswith(RESERVED_PREFIX)
    }
    return identity.head() + orjson.dumps(kept)[1:]


def _outcome_of_attempt(stored: Mapping[str, Any]) -> str:
    """Return the outcome of the attempt, independent of its verdict."""
    reason = stored.get(END_REASON_KEY)
    if reason in set(EndReason):
        return EndReason(reason).outcome.value
    is_failure = any(key.startswith(_FAILURE_PREFIX) for key in stored)
    return outcome_of({key: value for key, value in stored.items() if key != OUTCOME_KEY or not is_failure})
