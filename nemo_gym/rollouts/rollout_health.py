"""The ecosystem's import path for the health of a run as of its release after 0.7."""

from nemo_gym.rollout_health import HealthCheckResult as HealthCheckResult
from nemo_gym.rollout_health import RolloutVerdict as RolloutVerdict
from nemo_gym.rollout_health import run_health_checks as run_health_checks
