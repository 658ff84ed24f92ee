"""The ecosystem's import path for configuration and reference types."""

from nemo_gym.config.types import AgentServerRef as AgentServerRef
from nemo_gym.config.types import BaseRunServerConfig as BaseRunServerConfig
from nemo_gym.config.types import BaseRunServerInstanceConfig as BaseRunServerInstanceConfig
from nemo_gym.config.types import BaseServerConfig as BaseServerConfig
from nemo_gym.config.types import DatasetConfig as DatasetConfig
from nemo_gym.config.types import DatasetType as DatasetType
from nemo_gym.config.types import Domain as Domain
from nemo_gym.config.types import GitlabIdentifier as GitlabIdentifier
from nemo_gym.config.types import GitlabSource as GitlabSource
from nemo_gym.config.types import HuggingFaceIdentifier as HuggingFaceIdentifier
from nemo_gym.config.types import HuggingFaceSource as HuggingFaceSource
from nemo_gym.config.types import ModelServerRef as ModelServerRef
from nemo_gym.config.types import ResourcesServerRef as ResourcesServerRef
from nemo_gym.config.types import ServerRef as ServerRef
from nemo_gym.metrics.hooks import AggregateMetrics as AggregateMetrics
from nemo_gym.metrics.hooks import AggregateMetricsRequest as AggregateMetricsRequest
from nemo_gym.names import SERVER_KINDS as SERVER_KINDS
from nemo_gym.names import ServerKind as ServerKind
from nemo_gym.serving.rollout_paths import ROLLOUT_PATH_PREFIX as ROLLOUT_PATH_PREFIX
from nemo_gym.serving.rollout_paths import TOKEN_CAPTURE_PATH_SEGMENT as TOKEN_CAPTURE_PATH_SEGMENT
