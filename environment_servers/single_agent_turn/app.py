"""An environment server for episodes of one agent turn: open both sessions, ask the agent, verify, close both."""

from __future__ import annotations

from nemo_gym.episodes.single_agent_turn import SingleAgentTurnServer, SingleAgentTurnServerConfig


class SingleAgentTurnEnvironmentServer(SingleAgentTurnServer):
    config: SingleAgentTurnServerConfig


if __name__ == "__main__":
    SingleAgentTurnEnvironmentServer.run_webserver()
