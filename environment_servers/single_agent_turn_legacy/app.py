"""The episode of one agent turn behind the `/run` of an agent: a task row in, a scored row out."""

from __future__ import annotations

from nemo_gym.episodes.single_agent_turn import SingleAgentTurnLegacyServer, SingleAgentTurnServerConfig


class SingleAgentTurnLegacyEnvironmentServer(SingleAgentTurnLegacyServer):
    config: SingleAgentTurnServerConfig


if __name__ == "__main__":
    SingleAgentTurnLegacyEnvironmentServer.run_webserver()
