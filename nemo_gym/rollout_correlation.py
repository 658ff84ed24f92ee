"""The ecosystem's import path for the rollout that code belongs to."""

from nemo_gym.serving.rollout_paths import RolloutContextMiddleware as RolloutContextMiddleware
from nemo_gym.transport.rollout_context import current_rollout_id as current_rollout_id
from nemo_gym.transport.rollout_context import (
    maybe_rollout_id_from_run_body as maybe_rollout_id_from_run_body,
)
from nemo_gym.transport.rollout_context import rollout_context as rollout_context
