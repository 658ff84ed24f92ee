"""The ecosystem's import path for servers, the client between them, and sessions."""

from nemo_gym.config_types import BaseRunServerConfig, BaseRunServerInstanceConfig, BaseServerConfig
from nemo_gym.global_config import get_first_server_config_dict, get_global_config_dict
from nemo_gym.head.server import HeadServer
from nemo_gym.serving.base import BaseServer, SimpleServer
from nemo_gym.serving.rollout_paths import apply_rollout_prefix, rollout_path_prefix
from nemo_gym.serving.sessions import SESSION_ID_KEY
from nemo_gym.transport.server_client import (
    DEFAULT_HEAD_SERVER_PORT,
    HEAD_SERVER_KEY_NAME,
    ServerClient,
    get_global_aiohttp_client,
    get_response_json,
    get_server_url,
    is_nemo_gym_fastapi_entrypoint,
    raise_for_status,
    request,
)

__all__ = [
    "DEFAULT_HEAD_SERVER_PORT",
    "HEAD_SERVER_KEY_NAME",
    "SESSION_ID_KEY",
    "BaseRunServerConfig",
    "BaseRunServerInstanceConfig",
    "BaseServer",
    "BaseServerConfig",
    "HeadServer",
    "ServerClient",
    "SimpleServer",
    "apply_rollout_prefix",
    "get_first_server_config_dict",
    "get_global_aiohttp_client",
    "get_global_config_dict",
    "get_response_json",
    "get_server_url",
    "is_nemo_gym_fastapi_entrypoint",
    "raise_for_status",
    "request",
    "rollout_path_prefix",
]
