"""The ecosystem's import path for servers, the client between them, and sessions."""

from nemo_gym.config.current import (
    is_global_aiohttp_client_request_debug_enabled as is_global_aiohttp_client_request_debug_enabled,
)
from nemo_gym.config_types import BaseRunServerConfig as BaseRunServerConfig
from nemo_gym.config_types import BaseRunServerInstanceConfig as BaseRunServerInstanceConfig
from nemo_gym.config_types import BaseServerConfig as BaseServerConfig
from nemo_gym.global_config import get_first_server_config_dict as get_first_server_config_dict
from nemo_gym.global_config import get_global_config_dict as get_global_config_dict
from nemo_gym.head.server import HeadServer as HeadServer
from nemo_gym.serving.base import BaseServer as BaseServer
from nemo_gym.serving.base import SimpleServer as SimpleServer
from nemo_gym.serving.rollout_paths import apply_rollout_prefix as apply_rollout_prefix
from nemo_gym.serving.rollout_paths import rollout_path_prefix as rollout_path_prefix
from nemo_gym.serving.sessions import SESSION_ID_KEY as SESSION_ID_KEY
from nemo_gym.transport.server_client import DEFAULT_HEAD_SERVER_PORT as DEFAULT_HEAD_SERVER_PORT
from nemo_gym.transport.server_client import HEAD_SERVER_KEY_NAME as HEAD_SERVER_KEY_NAME
from nemo_gym.transport.server_client import ServerClient as ServerClient
from nemo_gym.transport.server_client import get_global_aiohttp_client as get_global_aiohttp_client
from nemo_gym.transport.server_client import get_response_json as get_response_json
from nemo_gym.transport.server_client import get_server_url as get_server_url
from nemo_gym.transport.server_client import is_nemo_gym_fastapi_entrypoint as is_nemo_gym_fastapi_entrypoint
from nemo_gym.transport.server_client import raise_for_status as raise_for_status
from nemo_gym.transport.server_client import request as request
