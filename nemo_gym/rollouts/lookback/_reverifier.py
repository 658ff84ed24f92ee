"""Verifies a stored rollout again: its environment scores the stored response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nemo_gym import clock
from nemo_gym.episodes.driver import read_failure
from nemo_gym.failures import Boundary, ConfigError, Failure, GymError, build_error
from nemo_gym.json_objects import dump_json, member, parse_json
from nemo_gym.rollouts.lookback.stored import StoredRun
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.answer import AgentAnswer, AttemptResult
from nemo_gym.rows.compose import (
    attach_response,
    compose_reverified_row,
    drop_result,
    number_row,
    replace_params,
)
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.identity import RolloutId, identity_at
from nemo_gym.rows.models import ReverifyMode
from nemo_gym.rows.parts import read_params, read_response
from nemo_gym.rows.verdict import read_reward
from nemo_gym.transport import Caller, Deadline
from nemo_gym.transport.context import SESSION_HEADER
from nemo_gym.transport.directory import server_block
from nemo_gym.transport.server_client import ServerReply


def find_environment(agent: str, config: Mapping[str, Any]) -> str:
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
        line = (self.run.scored if is_scored else self.run.failures).read_line(task.identity)
        stored = parse_json(line)
        if self.judge_failed_only and is_scored:
            return AgentAnswer(number_row(stored, task.identity), line if identity_at(line) else None)
        environment = find_environment(task.agent, self.config)
        try:
            verified = await self._verify(environment, task, stored)
        except GymError as error:
            return error.failure
        reward_before = read_reward(stored) if is_scored else None
        row = parse_json(task.row)
        return AgentAnswer(compose_reverified_row(row, stored, verified, reward_before=reward_before))

    async def _verify(self, environment: str, task: PlannedAttempt, stored: AnyRow) -> dict[str, Any]:
        body = attach_response(
            replace_params(parse_json(task.row), read_params(stored)), read_response(stored)
        )
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
            body=dump_json(body),
            headers={SESSION_HEADER: session},
            session=session,
            deadline=None if self.timeout_s is None else Deadline.after(self.timeout_s),
            repeatable=True,
        )
        if not reply.ok:
            raise build_error(read_failure(ServerReply(reply, "POST", server), server, f"answer {path}"))
        answer = parse_json(reply.body)
        if not isinstance(answer, dict):
            message = f"the answer of `{server}` to {path} is not a JSON object"
            raise build_error(Failure(Boundary.VERIFIER, "not_an_object", message, peer=server))
        return answer


def find_task_row(run: StoredRun, identity: RolloutId) -> bytes:
    """Return the row sent to the agent; if it is missing, the stored row without its results."""
    if identity in run.tasks:
        return run.tasks.read_line(identity)
    stored = (run.scored if identity in run.scored else run.failures).row(identity)
    return identity.head() + dump_json(drop_result(stored))[1:]
