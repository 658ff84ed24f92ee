"""The record of an agent's behaviour: invocations, tool calls, turns, context compactions, and what could not be seen.

Agents fill it from their harness's own logs. A part that a harness does not report is an `ObservationGap`, so that a
reader can tell an absent event from an unobserved one. Times are seconds since the epoch; `*_ms` are milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from nemo_gym.config.types import ModelServerRef
from nemo_gym.responses.schemas import Response


class _Record(BaseModel, extra="allow"):
    """Fields that a harness adds are kept."""


class ModelCallRef(_Record):
    """One call of a model server, by the capture's id of the call or by the id of its response."""

    model_call_id: str | None = None
    model_ref: ModelServerRef | None = None
    response_id: str | None = None


class ObservationGap(_Record):
    """Something that was not observed."""

    code: str
    """The kind of gap, such as `tool_timing_unavailable`."""
    invocation_id: str | None = None
    detail: str | None = None


class AgentInvocation(_Record):
    """One run of an agent, or of a subagent that a tool call started."""

    kind: Literal["agent_invocation"] = "agent_invocation"
    invocation_id: str
    parent_invocation_id: str | None = None
    spawned_by_tool_call_id: str | None = None
    status: str = "unknown"
    """`completed`, `failed`, `incomplete` or `unknown`."""
    conversation: list[Any] = Field(default_factory=list)
    """The messages and items of the invocation, in order."""
    duration_ms: float | None = None
    error_type: str | None = None
    model_calls: list[ModelCallRef] = Field(default_factory=list)


class ToolCallObservation(_Record):
    """One tool call of an invocation."""

    kind: Literal["tool_call"] = "tool_call"
    invocation_id: str
    tool_call_id: str
    tool_name: str | None = None
    started_at: float | None = None
    completed_at: float | None = None
    duration_ms: float | None = None
    timing_source: str | None = None
    """The origin of the times: `executor`, `harness` or `artifact`."""
    status: str = "unknown"
    error_type: str | None = None


class ContextCompactionObservation(_Record):
    """A replacement of old messages by a summary, when the context became too long."""

    kind: Literal["context_compaction"] = "context_compaction"
    invocation_id: str
    observed_at: float | None = None
    trigger: str | None = None
    outcome: str = "unknown"
    summary: str | None = None
    first_kept_item_id: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None
    before_model_call: ModelCallRef | None = None
    after_model_call: ModelCallRef | None = None


class SandboxObservation(_Record):
    """The use of a sandbox by an agent or a verifier."""

    kind: Literal["sandbox"] = "sandbox"
    role: str
    """`agent` or `verifier`."""
    provider: str | None = None
    sandbox_id: str | None = None
    outcome: str = "unknown"
    exit_code: int | None = None
    wall_time_s: float | None = None
    error_type: str | None = None


Observation: TypeAlias = Annotated[
    AgentInvocation | ToolCallObservation | ContextCompactionObservation | SandboxObservation,
    Field(discriminator="kind"),
]


class AgentObservationBundle(_Record):
    """All observations of one agent in one episode."""

    source: str
    """The harness that they come from."""
    records: list[Observation] = Field(default_factory=list)
    gaps: list[ObservationGap] = Field(default_factory=list)


class TrajectoryToolCall(ToolCallObservation):
    """A tool call with its output."""

    output: Any = None


class TrajectoryTurn(_Record):
    """One model call of an agent and its answer."""

    invocation_id: str
    task_id: str
    rollout_id: str
    turn_no: int
    """The number of the turn, from 1."""
    timestamp: float | None = None
    question: Any = None
    """The input of the model call."""
    answer: Any = None
    reasoning_content: Any = None
    step_count: int | None = None
    """Number of tool calls up to and including this turn."""
    model_calls: list[ModelCallRef] = Field(default_factory=list)
    resolved: bool | None = None
    """On the last turn: whether the verifier accepted the result."""


class TrajectoryRecord(_Record):
    """The turns and tool calls of one rollout."""

    task_id: str
    rollout_id: str
    invocations: list[AgentInvocation] = Field(default_factory=list)
    turns: list[TrajectoryTurn] = Field(default_factory=list)
    tool_calls: list[TrajectoryToolCall] = Field(default_factory=list)
    compactions: list[ContextCompactionObservation] = Field(default_factory=list)
    gaps: list[ObservationGap] = Field(default_factory=list)


@dataclass(frozen=True)
class AgentEpisode:
    """The result of an agent harness: its response and its observations."""

    response: Response
    observations: AgentObservationBundle
