"""The identity of an episode and of its task; the body and the answer of an environment server's `/run`."""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

from pydantic import AfterValidator, BaseModel, Field, model_validator

from nemo_gym.protocol.failure_kinds import FailureStage, validate_failure_kind

TaskInputT = TypeVar("TaskInputT")
ResultT = TypeVar("ResultT")


class EpisodeId(BaseModel, frozen=True, extra="forbid"):
    """A rollout, and the number of the attempt at it."""

    rollout_id: str = Field(min_length=1)
    attempt: int = Field(default=0, ge=0)

    @property
    def capture_key(self) -> str:
        """The id under which the attempt's model calls are recorded: a retry has its own."""
        return f"{self.rollout_id}-a{self.attempt}" if self.attempt else self.rollout_id


class TaskId(BaseModel, frozen=True, extra="forbid"):
    """A task of a task set."""

    taskset: str = Field(min_length=1)
    task_id: str = Field(min_length=1)


class MaterializedTask(BaseModel, Generic[TaskInputT], extra="forbid"):
    """A task and everything that an episode needs to know of it."""

    task_id: TaskId
    task_input: TaskInputT


class BaseEpisodeRequest(BaseModel, Generic[TaskInputT], extra="forbid"):
    """The body of `/run`."""

    episode_id: EpisodeId
    task: MaterializedTask[TaskInputT]


class EpisodeFailure(BaseModel):
    """The reason why an episode has no result."""

    failure_reason: str
    terminal: bool = False
    """True if another attempt would fail in the same way."""
    failure_kind: Annotated[str | None, AfterValidator(validate_failure_kind)] = None
    stage: FailureStage | None = None


class BaseEpisodeResponse(BaseModel, Generic[ResultT]):
    """The answer of `/run`: a result or a failure, and never both."""

    episode_id: EpisodeId
    task_id: TaskId
    result: ResultT | None = None
    failure: EpisodeFailure | None = None

    @model_validator(mode="after")
    def _check_result(self) -> BaseEpisodeResponse[ResultT]:
        if (self.result is None) == (self.failure is None):
            raise ValueError("an episode has either a result or a failure")
        return self
