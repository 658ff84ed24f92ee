"""The ecosystem's import path for configuration and reference types."""

from nemo_gym.config.types import (
    AgentServerRef,
    BaseRunServerConfig,
    BaseRunServerInstanceConfig,
    BaseServerConfig,
    DatasetConfig,
    DatasetType,
    Domain,
    GitlabIdentifier,
    GitlabSource,
    HuggingFaceIdentifier,
    HuggingFaceSource,
    ModelServerRef,
    ResourcesServerRef,
    ServerRef,
)
from nemo_gym.metrics.hooks import AggregateMetrics, AggregateMetricsRequest
from nemo_gym.names import SERVER_KINDS, ServerKind

__all__ = [
    "SERVER_KINDS",
    "AgentServerRef",
    "AggregateMetrics",
    "AggregateMetricsRequest",
    "BaseRunServerConfig",
    "BaseRunServerInstanceConfig",
    "BaseServerConfig",
    "DatasetConfig",
    "DatasetType",
    "Domain",
    "GitlabIdentifier",
    "GitlabSource",
    "HuggingFaceIdentifier",
    "HuggingFaceSource",
    "ModelServerRef",
    "ResourcesServerRef",
    "ServerKind",
    "ServerRef",
]
