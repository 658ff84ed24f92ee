"""The ecosystem's import path for judge calls."""

from nemo_gym.failures import JUDGE_FAILED as JUDGE_FAILED
from nemo_gym.failures import JudgeError as JudgeError
from nemo_gym.resources.judge_failsafe import judge_failsafe as judge_failsafe
from nemo_gym.verify.judge_calls import call_judge as call_judge
from nemo_gym.verify.judge_calls import reraise_judge_errors as reraise_judge_errors
