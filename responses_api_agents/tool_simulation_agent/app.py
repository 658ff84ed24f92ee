"""An agent that calls the model once. The verifier scores its answer with the tool calls; no tool is executed."""

from __future__ import annotations

from nemo_gym.agents.policy import Policy, Trajectory
from nemo_gym.base_responses_api_agent import BaseResponsesAPIAgentConfig, SimpleResponsesAPIAgent
from nemo_gym.config_types import ModelServerRef, ResourcesServerRef
from nemo_gym.episodes.driver import Act, Episode
from nemo_gym.rows.verdict import EndReason


class ToolSimulationAgentConfig(BaseResponsesAPIAgentConfig):
    resources_server: ResourcesServerRef
    model_server: ModelServerRef


class ToolSimulationAgent(SimpleResponsesAPIAgent):
    config: ToolSimulationAgentConfig

    async def act(self, episode: Episode) -> Act:
        trajectory = Trajectory(episode.params)
        policy = Policy(
            self.server_client,
            self.config.model_server.name,
            trajectory,
            takes_lists=type(self).act is ToolSimulationAgent.act,
        )
        await policy.answer()
        act = policy.trajectory.end(EndReason.FINAL_ANSWER)
        act.end_reason = EndReason.from_response(act.response)
        return act


if __name__ == "__main__":
    ToolSimulationAgent.run_webserver()
