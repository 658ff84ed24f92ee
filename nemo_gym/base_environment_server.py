"""The ecosystem's import path for environment servers."""

from nemo_gym.episodes.environment_server import BaseEnvironmentServer as BaseEnvironmentServer
from nemo_gym.episodes.environment_server import BaseEnvironmentServerConfig as BaseEnvironmentServerConfig
from nemo_gym.episodes.environment_server import CleanupContext as CleanupContext
from nemo_gym.episodes.environment_server import CleanupHandle as CleanupHandle
from nemo_gym.episodes.environment_server import HandledEpisodeError as HandledEpisodeError
