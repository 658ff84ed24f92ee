"""The ecosystem's import path for judge calls."""

from nemo_gym.failures import JUDGE_FAILED, JudgeError
from nemo_gym.resources.judge_failsafe import judge_failsafe
from nemo_gym.verify.judge_calls import call_judge, reraise_judge_errors

__all__ = [
    "JUDGE_FAILED",
    "JudgeError",
    "call_judge",
    "judge_failsafe",
    "reraise_judge_errors",
]
