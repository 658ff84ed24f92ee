"""The older import path of `nemo_gym.serving.rows`."""

from nemo_gym.serving.rows import BaseMultiRewardVerifyResponse as BaseMultiRewardVerifyResponse
from nemo_gym.serving.rows import BaseRunRequest as BaseRunRequest
from nemo_gym.serving.rows import BaseSeedSessionRequest as BaseSeedSessionRequest
from nemo_gym.serving.rows import BaseSeedSessionResponse as BaseSeedSessionResponse
from nemo_gym.serving.rows import BaseVerifyRequest as BaseVerifyRequest
from nemo_gym.serving.rows import BaseVerifyResponse as BaseVerifyResponse
from nemo_gym.serving.rows import ReverifyMode as ReverifyMode
from nemo_gym.serving.rows import TaskT as TaskT
from nemo_gym.serving.rows import read_task as read_task
