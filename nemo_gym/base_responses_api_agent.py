"""The ecosystem's import path for agents."""

from fastapi import Body as Body

from nemo_gym.agents.agent import BaseResponsesAPIAgent as BaseResponsesAPIAgent
from nemo_gym.agents.agent import BaseResponsesAPIAgentConfig as BaseResponsesAPIAgentConfig
from nemo_gym.agents.agent import SimpleResponsesAPIAgent as SimpleResponsesAPIAgent
from nemo_gym.metrics.hooks import AggregateMetrics as AggregateMetrics
from nemo_gym.metrics.hooks import AggregateMetricsRequest as AggregateMetricsRequest
