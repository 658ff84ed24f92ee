"""The ecosystem's import path for judge calls as of its release after 0.7."""

from nemo_gym.judge import JUDGE_FAILED as JUDGE_FAILED
from nemo_gym.judge import JudgeError as JudgeError
from nemo_gym.judge import call_judge as call_judge
from nemo_gym.judge import judge_failsafe as judge_failsafe
from nemo_gym.judge import reraise_judge_errors as reraise_judge_errors
