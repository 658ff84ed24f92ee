"""An agent for step-style environments: the model answers and the environment steps until the episode ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import orjson
from fastapi import Body, Request
from fastapi import Response as HttpResponse
from pydantic import Field

from nemo_gym.agents.policy import Policy, Trajectory
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.episodes.driver import Act, Episode
from nemo_gym.failures import Outcome
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.resources.gymnasium import EnvStepResponse
from nemo_gym.rows.verdict import EndReason
from responses_api_agents.gymnasium_agent.environment import StepEnvironment


class GymnasiumAgentConfig(BaseResponsesAPIAgentConfig):
    resources_server: ResourcesServerRef
    model_server: ModelServerRef
    max_steps: int = Field(default=10, ge=1)
    """The most model calls in one attempt; an attempt that reaches the limit is truncated."""
    reward: Literal["sum", "last"] = "sum"
    """The attempt's reward: the sum of the step rewards, or the last one."""


class GymnasiumAgent(SimpleResponsesAPIAgent):
    config: GymnasiumAgentConfig

    async def responses(
        self, request: Request, response: HttpResponse, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        """Return one answer of the model. Without a task row there is no environment."""
        params = orjson.loads(body.model_dump_json(exclude_unset=True))
        answer = await Policy(self.server_client, self.config.model_server.name, Trajectory(params)).answer()
        return NeMoGymResponse.model_validate(answer)

    async def act(self, episode: Episode) -> Act:
        environment = StepEnvironment(self.server_client, self.resources_server_name, episode.row)
        try:
            opening = await environment.reset()
            shown = environment.place_opening(opening, episode.params)
            episode.row["responses_create_params"] = shown
            trajectory = Trajectory(episode.params)
            return await self._play(
                Policy(self.server_client, self.config.model_server.name, trajectory), environment
            )
        finally:
            await environment.close()

    async def _play(self, policy: Policy, environment: StepEnvironment) -> Act:
        trajectory = policy.trajectory
        rewards: list[float] = []
        step = EnvStepResponse()
        reason: EndReason | None = None
        while reason is None:
            answer = await policy.answer()
            if answer is None:
                reason = policy.cut_by
                break
            step = await environment.step(answer)
            rewards.append(step.reward)
            for call_id, output, error in environment.tool_outputs(step, answer):
                if error is None:
                    trajectory.add_tool_output(call_id, output)
                else:
                    trajectory.add_failed_output(call_id, error)
            if step.observation:
                trajectory.add_user_message(step.observation)
            reason = self._end_reason(step, answer, trajectory.steps)
        act = trajectory.end(reason)
        act.score = self._score(rewards, step, reason)
        return act

    def _end_reason(self, step: EnvStepResponse, answer: dict[str, Any], steps: int) -> EndReason | None:
        """Return the end reason; None while the episode continues. A truncated answer is stepped and scored, too."""
        if answer.get("incomplete_details"):
            return EndReason.from_response(answer)
        if step.terminated:
            return EndReason.TERMINATED
        if step.truncated:
            return EndReason.TRUNCATED
        return EndReason.MAX_STEPS if steps >= self.config.max_steps else None

    def _score(self, rewards: Sequence[float], last: EnvStepResponse, reason: EndReason) -> dict[str, Any]:
        metrics = last.info.pop("metrics", None)
        return {
            **(metrics if isinstance(metrics, dict) else {}),
            "reward": sum(rewards) if self.config.reward == "sum" else rewards[-1],
            "step_rewards": rewards,
            "terminated": last.terminated,
            "truncated": reason.outcome is Outcome.TRUNCATED,
            "info": last.info,
        }


if __name__ == "__main__":
    GymnasiumAgent.run_webserver()
