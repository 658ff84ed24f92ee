"""The older import path of `nemo_gym.episodes.driver`."""

from nemo_gym.episodes.driver import (
    Act,
    EndReason,
    Episode,
    EpisodeAgent,
    EpisodeOptions,
    OnTruncation,
    close_quietly,
    drive_episode,
    failure_of,
    parse_row,
    require_ok,
)

__all__ = [
    "Act",
    "EndReason",
    "Episode",
    "EpisodeAgent",
    "EpisodeOptions",
    "OnTruncation",
    "close_quietly",
    "drive_episode",
    "failure_of",
    "parse_row",
    "require_ok",
]
