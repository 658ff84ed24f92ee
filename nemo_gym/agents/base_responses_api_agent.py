"""The ecosystem's import path for agents as of its release after 0.7."""

from nemo_gym.agents.agent import BaseResponsesAPIAgent as BaseResponsesAPIAgent
from nemo_gym.agents.agent import BaseResponsesAPIAgentConfig as BaseResponsesAPIAgentConfig
from nemo_gym.agents.agent import SimpleResponsesAPIAgent as SimpleResponsesAPIAgent
from nemo_gym.metrics.hooks import AggregateMetrics as AggregateMetrics
from nemo_gym.metrics.hooks import AggregateMetricsRequest as AggregateMetricsRequest
from nemo_gym.protocol.agent_sessions import AgentCloseSessionRequest as AgentCloseSessionRequest
from nemo_gym.protocol.agent_sessions import AgentCloseSessionResponse as AgentCloseSessionResponse
from nemo_gym.protocol.agent_sessions import AgentSeedSessionRequest as AgentSeedSessionRequest
from nemo_gym.protocol.agent_sessions import AgentSeedSessionResponse as AgentSeedSessionResponse
from nemo_gym.protocol.agent_sessions import AgentSessionSetupError as AgentSessionSetupError
from nemo_gym.protocol.agent_sessions import AgentSessionState as AgentSessionState
