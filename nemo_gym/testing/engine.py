"""The former name of `nemo_gym.mock_engine`."""

from nemo_gym.mock_engine import *  # noqa: F403
