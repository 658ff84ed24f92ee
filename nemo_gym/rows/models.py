"""Pydantic models for the bodies of `/run`, `/seed_session` and `/verify`, for authors to subclass."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from nemo_gym.failures import InputError
from nemo_gym.responses.schemas import Response, ResponseCreateParams

__all__ = ["read_task"]

TaskT = TypeVar("TaskT", bound=BaseModel)


class BaseRunRequest(BaseModel):
    """A task row. Subclass it to declare the verifier's fields, or allow extra fields."""

    model_config = ConfigDict(populate_by_name=True)

    responses_create_params: ResponseCreateParams


class BaseVerifyRequest(BaseRunRequest):
    """A task row and the policy's response."""

    response: Response


def _refuse_text(reward: object) -> object:
    """Raise for a reward that is text: pydantic would read "0.5" as 0.5, and a typing mistake of others as a score."""
    if isinstance(reward, str):
        raise ValueError(f"is the text {reward!r}; write a number")
    return reward


class BaseVerifyResponse(BaseVerifyRequest):
    """A verify request and its score. Fields that a class does not declare enter the row, too."""

    model_config = ConfigDict(extra="allow")

    reward: Annotated[float, BeforeValidator(_refuse_text)]
    mask_sample: bool = False
    """True if trainers should skip the row."""
    failure_kind: str | None = None
    """A name of `nemo_gym.failure_kinds`, if the verdict is not about the policy's answer."""
    failure_reason: str | None = None


class BaseMultiRewardVerifyResponse(BaseVerifyResponse):
    """A score with several components; `reward` equals their sum."""

    reward_components: dict[str, float]


class BaseSeedSessionRequest(BaseModel):
    """The body of `/seed_session`: the whole task row. Subclass it to declare the fields that you need."""


class BaseSeedSessionResponse(BaseModel):
    """The response of `/seed_session`. All of its fields reach the agent; subclass it to declare some."""

    model_config = ConfigDict(extra="allow")


class ReverifyMode(StrEnum):
    """The support of an environment for scoring stored rollouts again, without sessions."""

    STATELESS = "stateless"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"


def read_task(model: type[TaskT], metadata: Mapping[str, Any]) -> TaskT:
    """Validate the fields that a server reads from a task row. Raises `InputError` that lists all problems."""
    try:
        return model.model_validate(metadata)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc'])) or 'the row'}: {e['msg']}" for e in error.errors()]
        raise InputError(
            f"the task row is not valid: {'; '.join(problems)}",
            code="invalid_row",
            param=problems[0].partition(":")[0],
            remedy="Correct it in the dataset.",
        ) from error
