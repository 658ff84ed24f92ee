"""The ecosystem's import path for calls of any server as of its release after 0.7."""

from nemo_gym.config.current import (
    is_global_aiohttp_client_request_debug_enabled as is_global_aiohttp_client_request_debug_enabled,
)
from nemo_gym.transport.server_client import get_global_aiohttp_client as get_global_aiohttp_client
from nemo_gym.transport.server_client import get_response_json as get_response_json
from nemo_gym.transport.server_client import raise_for_status as raise_for_status
from nemo_gym.transport.server_client import request as request
