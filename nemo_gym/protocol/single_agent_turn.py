"""The episode of one agent turn: the agent responds once to the task, and a resources server verifies it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from nemo_gym.protocol.episodes import BaseEpisodeRequest, BaseEpisodeResponse, EpisodeFailure
from nemo_gym.protocol.observations import AgentObservationBundle
from nemo_gym.responses.schemas import Response, ResponseCreateParams


class SingleAgentTurnTaskInput(BaseModel, extra="forbid"):
    """The input of the policy, and the fields of the verifier."""

    responses_create_params: ResponseCreateParams
    task_data: dict[str, Any] = Field(default_factory=dict)


class SingleAgentTurnRequest(BaseEpisodeRequest[SingleAgentTurnTaskInput]):
    """The body of `/run`."""


class SingleAgentTurnResult(BaseModel, extra="allow"):
    """The answer of `/verify`, with the agent's observations."""

    responses_create_params: ResponseCreateParams
    response: Response
    reward: float
    mask_sample: bool = False
    ng_agent_observations: AgentObservationBundle | None = None


class SingleAgentTurnFailure(EpisodeFailure):
    partial_response: Response | None = None
    """The agent's response, if the episode failed after it."""


class SingleAgentTurnResponse(BaseEpisodeResponse[SingleAgentTurnResult]):
    failure: SingleAgentTurnFailure | None = None
