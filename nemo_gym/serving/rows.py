"""The bodies of `/run`, `/seed_session` and `/verify` as models that environment authors subclass."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nemo_gym.failures import InputError
from nemo_gym.responses.schemas import Response, ResponseCreateParams

TaskT = TypeVar("TaskT", bound=BaseModel)


class BaseRunRequest(BaseModel):
    """A task row. Subclass it to name the verifier's fields, or allow extras to see them all."""

    model_config = ConfigDict(populate_by_name=True)

    responses_create_params: ResponseCreateParams


class BaseVerifyRequest(BaseRunRequest):
    """A task row and what the policy answered."""

    response: Response


class BaseVerifyResponse(BaseVerifyRequest):
    """A verify request and its score."""

    reward: float


class BaseMultiRewardVerifyResponse(BaseVerifyResponse):
    """A score of several components; `reward` equals their sum."""

    reward_components: dict[str, float]


class BaseSeedSessionRequest(BaseModel):
    """The body of `/seed_session` is the whole task row; subclass it to name the fields that are needed."""


class BaseSeedSessionResponse(BaseModel):
    """Subclass it to hand something to the agent."""


class ReverifyMode(StrEnum):
    """Whether stored rollouts of an environment can be scored again without its sessions."""

    STATELESS = "stateless"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


def read_task(model: type[TaskT], metadata: Mapping[str, Any]) -> TaskT:
    """The fields that a server reads from a task row. Raises `InputError` that names what is wrong."""
    try:
        return model.model_validate(metadata)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc'])) or 'the row'}: {e['msg']}" for e in error.errors()]
        raise InputError(
            f"the task row cannot be played: {'; '.join(problems)}",
            code="invalid_row",
            param=problems[0].partition(":")[0],
            remedy="Correct it in the dataset.",
        ) from error
