"""The trajectory format as data, with its own rules. All objects refuse unknown fields; `extra` is for any data."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, field_validator, model_validator

OUR_DATA = "nemo_gym"
"""The name of the gym's data in each `extra`."""
_AGENT_FIELDS = ("model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics")
_VERSIONS = frozenset(f"ATIF-v1.{minor}" for minor in range(9))
_IMAGES = frozenset(f"image/{kind}" for kind in ("jpeg", "png", "gif", "webp"))


class AtifPart(BaseModel, extra="forbid"):
    """The base of all objects of the format."""


class AtifMediaSource(AtifPart):
    media_type: str
    path: str
    """A path beside the trajectory, or a URL."""
    duration_sec: float | None = None


class AtifContentPart(AtifPart):
    type: Literal["text", "image", "audio"]
    text: str | None = None
    source: AtifMediaSource | None = None

    @model_validator(mode="after")
    def _check_type(self) -> Self:
        is_text = self.type == "text"
        if (self.text is not None) is not is_text or (self.source is None) is not is_text:
            raise ValueError(f"a part of type {self.type!r} has {'text' if is_text else 'a source'} alone")
        kind = self.source.media_type if self.source is not None else ""
        if self.source is not None and (kind in _IMAGES) is not (self.type == "image"):
            raise ValueError(f"{kind!r} is no type of {self.type}")
        return self


class AtifToolCall(AtifPart):
    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class AtifSubagentRef(AtifPart):
    trajectory_id: str | None = None
    trajectory_path: str | None = None
    session_id: str | None = None
    extra: dict[str, Any] | None = None


class AtifToolResult(AtifPart):
    source_call_id: str | None = None
    content: str | list[AtifContentPart] | None = None
    subagent_trajectory_ref: list[AtifSubagentRef] | None = None
    extra: dict[str, Any] | None = None


class AtifObservation(AtifPart):
    results: list[AtifToolResult]


class AtifMetrics(AtifPart):
    """The figures of a model call. The prompt's ids are those of the whole prompt."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    prompt_token_ids: list[int] | None = None
    completion_token_ids: list[int] | None = None
    logprobs: list[float] | None = None
    extra: dict[str, Any] | None = None


class AtifStep(AtifPart):
    """A message with what followed from it."""

    step_id: int = Field(ge=1)
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    model_name: str | None = None
    reasoning_effort: str | float | None = None
    message: str | list[AtifContentPart]
    reasoning_content: str | None = None
    tool_calls: list[AtifToolCall] | None = None
    observation: AtifObservation | None = None
    metrics: AtifMetrics | None = None
    is_copied_context: bool | None = None
    llm_call_count: int | None = Field(default=None, ge=0)
    extra: dict[str, Any] | None = None

    @field_validator("timestamp")
    @classmethod
    def _check_time(cls, text: str | None) -> str | None:
        if text is not None:
            datetime.fromisoformat(text)
        return text

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        if self.source != "agent":
            if strange := [name for name in _AGENT_FIELDS if getattr(self, name) is not None]:
                raise ValueError(f"a step of the {self.source} has no {', '.join(strange)}")
        elif self.llm_call_count == 0 and (self.metrics or self.reasoning_content is not None):
            raise ValueError("a step without a model call has neither metrics nor reasoning")
        called = {call.tool_call_id for call in self.tool_calls or ()}
        for result in self.observation.results if self.observation else ():
            if result.source_call_id is not None and result.source_call_id not in called:
                raise ValueError(f"the result of {result.source_call_id!r} is not in the step of its call")
        return self


class AtifAgentInfo(AtifPart):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: list[dict[str, Any]] | None = None
    extra: dict[str, Any] | None = None


class AtifFinalMetrics(AtifPart):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = Field(default=None, ge=0)
    extra: dict[str, Any] | None = None


class AtifTrajectory(AtifPart):
    """A whole trajectory, with those of its subagents."""

    schema_version: str
    session_id: str | None = None
    trajectory_id: str | None = None
    agent: AtifAgentInfo
    steps: list[AtifStep] = Field(min_length=1)
    notes: str | None = None
    final_metrics: AtifFinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: dict[str, Any] | None = None
    subagent_trajectories: list[AtifTrajectory] | None = None

    @field_validator("schema_version")
    @classmethod
    def _check_version(cls, version: str) -> str:
        if version not in _VERSIONS:
            raise ValueError(f"{version!r} is none of ATIF-v1.0 to ATIF-v1.8")
        return version

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        if [step.step_id for step in self.steps] != [*range(1, len(self.steps) + 1)]:
            raise ValueError("the ids of steps are 1, 2, 3, … in order")
        names = [each.trajectory_id for each in self.subagent_trajectories or ()]
        if None in names or len(names) != len(set(names)):
            raise ValueError("every trajectory of a subagent has a trajectory_id of its own")
        return self
