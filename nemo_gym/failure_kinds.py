"""The ecosystem's import path for the names of failures."""

from nemo_gym.protocol.failure_kinds import AGENT_RUN_ERROR as AGENT_RUN_ERROR
from nemo_gym.protocol.failure_kinds import JUDGE_FAILED as JUDGE_FAILED
from nemo_gym.protocol.failure_kinds import VERIFIER_ERROR as VERIFIER_ERROR
from nemo_gym.protocol.failure_kinds import FailureStage as FailureStage
from nemo_gym.protocol.failure_kinds import is_namespaced as is_namespaced
from nemo_gym.protocol.failure_kinds import is_registered as is_registered
from nemo_gym.protocol.failure_kinds import validate_failure_kind as validate_failure_kind
