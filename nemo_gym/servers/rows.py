"""The older import path of `nemo_gym.serving.rows`."""

from nemo_gym.rows.models import BaseMultiRewardVerifyResponse as BaseMultiRewardVerifyResponse
from nemo_gym.rows.models import BaseRunRequest as BaseRunRequest
from nemo_gym.rows.models import BaseSeedSessionRequest as BaseSeedSessionRequest
from nemo_gym.rows.models import BaseSeedSessionResponse as BaseSeedSessionResponse
from nemo_gym.rows.models import BaseVerifyRequest as BaseVerifyRequest
from nemo_gym.rows.models import BaseVerifyResponse as BaseVerifyResponse
from nemo_gym.rows.models import ReverifyMode as ReverifyMode
from nemo_gym.rows.models import TaskT as TaskT
from nemo_gym.rows.models import read_task as read_task
