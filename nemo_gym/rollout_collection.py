"""The ecosystem's import path for rollout collection."""

from nemo_gym.ecosystem.attempt_rows import get_max_rollout_attempts as get_max_rollout_attempts
from nemo_gym.ecosystem.attempt_rows import is_terminal_failure as is_terminal_failure
from nemo_gym.ecosystem.attempt_rows import (
    migrate_invalid_judge_main_rows as migrate_invalid_judge_main_rows,
)
from nemo_gym.ecosystem.attempt_rows import observed_elapsed as observed_elapsed
from nemo_gym.ecosystem.row_collection import RolloutCollectionConfig as RolloutCollectionConfig
from nemo_gym.ecosystem.row_collection import RolloutCollectionHelper as RolloutCollectionHelper
from nemo_gym.ecosystem.row_collection import SharedRolloutCollectionConfig as SharedRolloutCollectionConfig
from nemo_gym.rollouts.run.dispatch_budget import DispatchLatencyTracker as DispatchLatencyTracker
from nemo_gym.rows import keys

NG_FAILURE_CLASS_KEY = keys.FAILURE_CLASS_KEY
NG_NO_PERSIST_KEY = keys.NO_PERSIST_KEY
NG_TERMINAL_KEY = keys.TERMINAL_KEY

_get_max_rollout_attempts = get_max_rollout_attempts
"""The name that environments written for 0.5.1 import."""
