"""The older import path of `nemo_gym.episodes.driver`."""

from nemo_gym.episodes.driver import Act as Act
from nemo_gym.episodes.driver import Episode as Episode
from nemo_gym.episodes.driver import EpisodeAgent as EpisodeAgent
from nemo_gym.episodes.driver import EpisodeOptions as EpisodeOptions
from nemo_gym.episodes.driver import OnTruncation as OnTruncation
from nemo_gym.episodes.driver import close_quietly as close_quietly
from nemo_gym.episodes.driver import drive_episode as drive_episode
from nemo_gym.episodes.driver import failure_of as failure_of
from nemo_gym.episodes.driver import parse_row as parse_row
from nemo_gym.episodes.driver import require_ok as require_ok
from nemo_gym.rows.verdict import EndReason as EndReason
