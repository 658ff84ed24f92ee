"""The ecosystem's import path for rollout collection."""

from nemo_gym.rollouts.run.answer import NG_FAILURE_CLASS_KEY as NG_FAILURE_CLASS_KEY
from nemo_gym.rollouts.run.answer import NG_NO_PERSIST_KEY as NG_NO_PERSIST_KEY
from nemo_gym.rollouts.run.answer import NG_TERMINAL_KEY as NG_TERMINAL_KEY
from nemo_gym.rollouts.run.examples import RolloutCollectionConfig as RolloutCollectionConfig
from nemo_gym.rollouts.run.examples import RolloutCollectionHelper as RolloutCollectionHelper
