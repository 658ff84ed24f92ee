"""The ecosystem's import path for resources servers."""

from nemo_gym import names
from nemo_gym.metrics.hooks import AggregateMetrics as AggregateMetrics
from nemo_gym.metrics.hooks import AggregateMetricsRequest as AggregateMetricsRequest
from nemo_gym.openai_utils import NeMoGymResponse as NeMoGymResponse
from nemo_gym.openai_utils import (
    NeMoGymResponseCreateParamsNonStreaming as NeMoGymResponseCreateParamsNonStreaming,
)
from nemo_gym.protocol.resources_sessions import ResourcesCloseSessionRequest as ResourcesCloseSessionRequest
from nemo_gym.protocol.resources_sessions import (
    ResourcesCloseSessionResponse as ResourcesCloseSessionResponse,
)
from nemo_gym.protocol.resources_sessions import ResourcesMCPTools as ResourcesMCPTools
from nemo_gym.protocol.resources_sessions import ResourcesSeedSessionRequest as ResourcesSeedSessionRequest
from nemo_gym.protocol.resources_sessions import ResourcesSeedSessionResponse as ResourcesSeedSessionResponse
from nemo_gym.protocol.resources_sessions import ResourcesVerifyRequest as ResourcesVerifyRequest
from nemo_gym.resources.server import BaseResourcesServer as BaseResourcesServer
from nemo_gym.resources.server import BaseResourcesServerConfig as BaseResourcesServerConfig
from nemo_gym.resources.server import SimpleResourcesServer as SimpleResourcesServer
from nemo_gym.rows.models import BaseMultiRewardVerifyResponse as BaseMultiRewardVerifyResponse
from nemo_gym.rows.models import BaseRunRequest as BaseRunRequest
from nemo_gym.rows.models import BaseSeedSessionRequest as BaseSeedSessionRequest
from nemo_gym.rows.models import BaseSeedSessionResponse as BaseSeedSessionResponse
from nemo_gym.rows.models import BaseVerifyRequest as BaseVerifyRequest
from nemo_gym.rows.models import BaseVerifyResponse as BaseVerifyResponse
from nemo_gym.rows.models import ReverifyMode as ReverifyMode

NEMO_GYM_MCP_METADATA_KEY = names.MCP_METADATA_KEY
NEMO_GYM_MCP_SESSION_TOKEN_HEADER = names.MCP_TOKEN_HEADER
