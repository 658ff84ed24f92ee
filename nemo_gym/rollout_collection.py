"""The ecosystem's import path for rollout collection."""

from nemo_gym.rollouts.run.answer import NG_FAILURE_CLASS_KEY, NG_NO_PERSIST_KEY, NG_TERMINAL_KEY
from nemo_gym.rollouts.run.examples import RolloutCollectionConfig, RolloutCollectionHelper

__all__ = [
    "NG_FAILURE_CLASS_KEY",
    "NG_NO_PERSIST_KEY",
    "NG_TERMINAL_KEY",
    "RolloutCollectionConfig",
    "RolloutCollectionHelper",
]
