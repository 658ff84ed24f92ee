"""The ecosystem's import path for the health of a run."""

from nemo_gym.ecosystem.health_verdicts import HealthCheckResult as HealthCheckResult
from nemo_gym.ecosystem.health_verdicts import RolloutVerdict as RolloutVerdict
from nemo_gym.ecosystem.health_verdicts import run_health_checks as run_health_checks
