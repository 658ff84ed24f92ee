"""An agent for environments that call the model themselves: a host plays a whole attempt, behind the model server.

Each seat has a record of its own at its model server, and so has each judge. The record of the policy's seat is the
attempt; the others belong to no rollout. The environment scores the attempt, so `/verify` is not called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from fastapi import Body, HTTPException, Request
from fastapi import Response as HttpResponse
from pydantic import PositiveFloat, PositiveInt, PrivateAttr

from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.episodes.driver import Act, Episode
from nemo_gym.failures import ConfigError, ForeignError, build_error
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.rows.models import read_task
from nemo_gym.rows.verdict import EndReason
from nemo_gym.server_utils import get_first_server_config_dict
from nemo_gym.sources.foreign.environment import ForeignRow, ForeignSource
from nemo_gym.sources.foreign.pool import HostPool
from nemo_gym.sources.foreign.process import HostProcess
from nemo_gym.transport.context import current_context
from nemo_gym.verify.rewards import MultiReward, sum_rewards
from responses_api_agents.foreign_agent.seats import Cast, CastMember, pin_sampling

_DESCRIBE_S = 120.0
_OWN_TIME_S = 30.0
"""Seconds beside those of an attempt, for its start and its end."""


class ForeignAgentConfig(BaseResponsesAPIAgentConfig):
    RUNS_CODE: ClassVar[bool] = True

    resources_server: ResourcesServerRef
    """The environment, whose options name its source."""
    model_server: ModelServerRef
    max_steps: PositiveInt = 50
    """Model calls of the policy's seat, after which the environment truncates and scores the attempt."""
    timeout_s: PositiveFloat = 600.0
    """Seconds of an attempt, beyond which it fails."""


class ForeignAgent(SimpleResponsesAPIAgent):
    config: ForeignAgentConfig

    _source: ForeignSource | None = PrivateAttr(default=None)
    _pool: HostPool | None = PrivateAttr(default=None)
    _about: dict[str, Any] = PrivateAttr(default_factory=dict)

    async def on_start(self) -> None:
        """Find the interpreter and the isolation before the first attempt. Raises `ConfigError`."""
        await super().on_start()
        await self._find_pool().prepare()

    async def on_stop(self) -> None:
        await super().on_stop()
        if self._pool is not None:
            await self._pool.close()

    async def responses(
        self, request: Request, response: HttpResponse, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        raise HTTPException(501, "an environment that calls the model itself needs a task row: call /run")

    async def act(self, episode: Episode) -> Act:
        row = read_task(ForeignRow, episode.row).foreign
        pool = self._find_pool()
        host = await pool.acquire()
        try:
            about = await self._describe(host)
            row.require_same(self._find_source().source, about)
            seat = row.choose_seat(about, episode.row)
            cast = self._build_cast(episode, about, seat)
            attempt = {
                "task": {"id": row.task, "data": row.data},
                "seed": row.seed,
                "limits": {"turns": self.config.max_steps},
            }
            return await self._play(host, cast, attempt)
        finally:
            await pool.release(host, is_reusable=host.is_usable)

    async def _play(self, host: HostProcess, cast: Cast, attempt: Mapping[str, Any]) -> Act:
        """Let the host play, and return the attempt. Raises the failure of a model before that of the environment."""
        failed: ForeignError | None = None
        result: dict[str, Any] = {}
        async with cast.listening(host) as models:
            try:
                result = await host.ask(
                    "run", {**attempt, "models": models}, deadline_s=self.config.timeout_s
                )
            except ForeignError as error:
                failed = error
        policy = cast.policy
        notes = {"foreign_agent": {"calls": cast.count_calls(), "calls_seen": result.get("calls_seen")}}
        if policy.gateway.has_spent_budget:
            return Act(policy.read_trace(), EndReason.BUDGET, MultiReward(0.0, {})._asdict(), notes)
        if failed is not None:
            failure = cast.find_failure()
            raise failed if failure is None else build_error(failure)
        if not policy.gateway.calls:
            raise ForeignError(
                f"the environment ended the attempt before the first turn of seat {policy.name}",
                code="no_turn",
                retryable=True,
            )
        end = result.get("end") or {}
        return Act(policy.read_trace(), _read_end(end), _build_score(result, policy, end), notes)

    def _build_cast(self, episode: Episode, about: Mapping[str, Any], seat: int) -> Cast:
        """Return the models of an attempt. Raises `ConfigError` if a seat or a judge has none."""
        context = current_context.get()
        assert context is not None  # `/run` is always a request
        source = self._find_source()
        seats = [str(each["name"]) for each in about["seats"]]
        others = [name for name in seats if name != seats[seat]] + [
            str(name) for name in about.get("models") or ()
        ]
        if others and source.opponent_model_server is None:
            raise ConfigError(
                f"{source.source} calls models beside the policy ({', '.join(others)}), and "
                f"`{self.config.resources_server.name}` has no opponent_model_server.",
                code="no_opponent",
                remedy="Set opponent_model_server: {type: responses_api_models, name: policy_model}.",
            )
        members = [CastMember(seats[seat], self.config.model_server.name, pin_sampling(episode.params))]
        if source.opponent_model_server is not None:
            server, sampling = source.opponent_model_server.name, pin_sampling(source.opponent_params)
            members += [CastMember(name, server, sampling) for name in others]
        expires_s = self.config.timeout_s + _OWN_TIME_S
        return Cast(self.server_client, context.session, self.resources_server_name, members, expires_s)

    async def _describe(self, host: HostProcess) -> dict[str, Any]:
        if not self._about:
            self._about = await host.ask("describe", {}, deadline_s=_DESCRIBE_S)
        return self._about

    def _find_source(self) -> ForeignSource:
        if self._source is None:
            blocks = self.server_client.global_config_dict
            block = get_first_server_config_dict(blocks, self.resources_server_name)
            self._source = ForeignSource.model_validate(dict(block))
        return self._source

    def _find_pool(self) -> HostPool:
        if self._pool is None:
            self._pool = self._find_source().build_pool()
        return self._pool


def _read_end(end: Mapping[str, Any]) -> EndReason:
    try:
        return EndReason(str(end.get("reason")))
    except ValueError as error:
        raise ForeignError(f"the host gave no end reason, but {end!r}", code="host_protocol") from error


def _build_score(result: Mapping[str, Any], policy: CastMember, end: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reward of the policy's seat, its components and its metrics."""
    given = (result.get("components") or {}).get(policy.name) or {}
    values = {name: part["value"] for name, part in given.items()}
    parts = sum_rewards(values, {name: part["weight"] for name, part in given.items()}).reward_components
    return {
        **((result.get("metrics") or {}).get(policy.name) or {}),
        **MultiReward(result["rewards"].get(policy.name), parts)._asdict(),
        "info": {"seat": policy.name, "end": end.get("detail"), "native": result.get("native")},
    }


if __name__ == "__main__":
    ForeignAgent.run_webserver()
