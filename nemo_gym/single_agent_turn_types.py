"""The ecosystem's import path for the episode of one agent turn."""

from nemo_gym.protocol.single_agent_turn import SingleAgentTurnFailure as SingleAgentTurnFailure
from nemo_gym.protocol.single_agent_turn import SingleAgentTurnRequest as SingleAgentTurnRequest
from nemo_gym.protocol.single_agent_turn import SingleAgentTurnResponse as SingleAgentTurnResponse
from nemo_gym.protocol.single_agent_turn import SingleAgentTurnResult as SingleAgentTurnResult
from nemo_gym.protocol.single_agent_turn import SingleAgentTurnTaskInput as SingleAgentTurnTaskInput
