"""The ecosystem's import path for the client between servers as of its release after 0.7."""

from nemo_gym.transport.server_client import DEFAULT_HEAD_SERVER_PORT as DEFAULT_HEAD_SERVER_PORT
from nemo_gym.transport.server_client import HEAD_SERVER_KEY_NAME as HEAD_SERVER_KEY_NAME
from nemo_gym.transport.server_client import ServerClient as ServerClient
