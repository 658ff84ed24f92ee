"""An agent for conversations: the policy answers a user that a second model simulates, until the user ends it."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import Body, Request
from fastapi import Response as HttpResponse
from pydantic import Field

from nemo_gym.agents.policy import Policy, Trajectory
from nemo_gym.agents.tools import ToolClient
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.episodes.driver import Act, Episode
from nemo_gym.failures import GymError
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseCreateParamsNonStreaming
from nemo_gym.rows.models import read_task
from nemo_gym.rows.verdict import EndReason
from nemo_gym.verify.answers import final_text
from responses_api_agents.user_simulation_agent.user import DEFAULT_PROMPT, SimulatedUser, UserTask


class UserSimulationAgentConfig(BaseResponsesAPIAgentConfig):
    resources_server: ResourcesServerRef
    model_server: ModelServerRef
    user_model_server: ModelServerRef
    user_prompt: str = DEFAULT_PROMPT
    """The system prompt of the user's model; `{instructions}` and `{stop_token}` are filled in."""
    user_params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the user's model calls, such as `temperature`."""
    stop_token: str = Field(default="###STOP###", min_length=1)
    """The text with which the user ends the conversation."""
    max_turns: int = Field(default=20, ge=1)
    """The most answers of the policy; an attempt whose user continues beyond them is truncated."""
    max_steps: int | None = Field(default=None, ge=1)
    """The most model calls of the policy in one attempt."""


class UserSimulationAgent(SimpleResponsesAPIAgent):
    config: UserSimulationAgentConfig

    async def responses(
        self, request: Request, response: HttpResponse, body: NeMoGymResponseCreateParamsNonStreaming = Body()
    ) -> NeMoGymResponse:
        """Return the policy's answer to the request. Without a task row there is no simulated user."""
        params = orjson.loads(body.model_dump_json(exclude_unset=True))
        policy, tools = self._policy(params)
        reason = await policy.take_turn(tools, self.config.max_steps)
        return NeMoGymResponse.model_validate(policy.trajectory.end(reason).response)

    async def act(self, episode: Episode) -> Act:
        user = self._user(episode)
        policy, tools = self._policy(episode.params)
        act = policy.trajectory.end(await self._converse(user, policy, tools))
        act.notes |= {"user_messages": user.messages, "user_usage": user.usage}
        return act

    async def _converse(self, user: SimulatedUser, policy: Policy, tools: ToolClient) -> EndReason:
        turns = 0
        while True:
            if not user.has_spoken_last:
                try:
                    said = await user.speak()
                except GymError as error:
                    if not policy.is_spent_budget(error.failure):
                        raise
                    return EndReason.BUDGET
                if said.text:
                    policy.trajectory.add_user_message(
                        said.text, simulated_by=self.config.user_model_server.name
                    )
                if said.is_done and not turns:
                    raise user.failure("ended the conversation before the policy was asked")
                if said.is_done:
                    return EndReason.USER_DONE
                if turns == self.config.max_turns:
                    return EndReason.MAX_TURNS
            reason = await policy.take_turn(tools, self.config.max_steps)
            turns += 1
            if reason is not EndReason.FINAL_ANSWER:
                return reason
            user.hear(final_text(policy.trajectory.last_answer))

    def _policy(self, params: dict[str, Any]) -> tuple[Policy, ToolClient]:
        tools = ToolClient(self.server_client, self.config.resources_server.name, params.get("tools"))
        policy = Policy(
            self.server_client,
            self.config.model_server.name,
            Trajectory(params),
            takes_lists=type(self).act is UserSimulationAgent.act,
        )
        return policy, tools

    def _user(self, episode: Episode) -> SimulatedUser:
        task = read_task(UserTask, episode.row).user_simulation
        role = self.config.user_prompt.replace("{stop_token}", self.config.stop_token)
        return SimulatedUser(
            self.server_client,
            self.config.user_model_server.name,
            self.config.user_params,
            role=role.replace("{instructions}", task.instructions),
            stop_token=self.config.stop_token,
            conversation=episode.params["input"],
        )


if __name__ == "__main__":
    UserSimulationAgent.run_webserver()
