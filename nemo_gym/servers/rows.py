"""The older import path of `nemo_gym.serving.rows`."""

from nemo_gym.serving.rows import (
    BaseMultiRewardVerifyResponse,
    BaseRunRequest,
    BaseSeedSessionRequest,
    BaseSeedSessionResponse,
    BaseVerifyRequest,
    BaseVerifyResponse,
    ReverifyMode,
    TaskT,
    read_task,
)

__all__ = [
    "BaseMultiRewardVerifyResponse",
    "BaseRunRequest",
    "BaseSeedSessionRequest",
    "BaseSeedSessionResponse",
    "BaseVerifyRequest",
    "BaseVerifyResponse",
    "ReverifyMode",
    "TaskT",
    "read_task",
]
