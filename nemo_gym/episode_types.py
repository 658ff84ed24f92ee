"""The ecosystem's import path for episodes and their tasks."""

from nemo_gym.protocol.episodes import BaseEpisodeRequest as BaseEpisodeRequest
from nemo_gym.protocol.episodes import BaseEpisodeResponse as BaseEpisodeResponse
from nemo_gym.protocol.episodes import EpisodeFailure as EpisodeFailure
from nemo_gym.protocol.episodes import EpisodeId as EpisodeId
from nemo_gym.protocol.episodes import MaterializedTask as MaterializedTask
from nemo_gym.protocol.episodes import TaskId as TaskId
