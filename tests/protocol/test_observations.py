"""Observations survive JSON with their kinds and with fields that only one harness knows."""

from __future__ import annotations

from nemo_gym.config.types import ModelServerRef
from nemo_gym.protocol.observations import (
    AgentInvocation,
    AgentObservationBundle,
    ContextCompactionObservation,
    ModelCallRef,
    ObservationGap,
    SandboxObservation,
    ToolCallObservation,
    TrajectoryRecord,
    TrajectoryToolCall,
    TrajectoryTurn,
)


def test_a_bundle_is_the_same_after_json() -> None:
    call = ModelCallRef(
        model_ref=ModelServerRef(type="responses_api_models", name="policy"), response_id="r1"
    )
    bundle = AgentObservationBundle(
        source="harness",
        records=[
            AgentInvocation(invocation_id="root", status="completed", model_calls=[call]),
            AgentInvocation(invocation_id="sub", parent_invocation_id="root", spawned_by_tool_call_id="c1"),
            ToolCallObservation(
                invocation_id="root", tool_call_id="c1", tool_name="task", timing_source="harness"
            ),
            ContextCompactionObservation(invocation_id="root", tokens_before=9000, tokens_after=800),
            SandboxObservation(role="verifier", outcome="completed", exit_code=0),
        ],
        gaps=[ObservationGap(code="tool_timing_unavailable", invocation_id="root", detail="c1")],
    )
    again = AgentObservationBundle.model_validate_json(bundle.model_dump_json())
    assert again == bundle
    assert [type(record) for record in again.records] == [type(record) for record in bundle.records]


def test_a_field_of_the_harness_is_kept() -> None:
    record = {"kind": "agent_invocation", "invocation_id": "root", "native_id": 5}
    bundle = AgentObservationBundle.model_validate({"source": "harness", "records": [record]})
    assert bundle.model_dump()["records"][0]["native_id"] == 5


def test_a_tool_call_of_a_trajectory_is_an_observation_without_its_output() -> None:
    call = TrajectoryToolCall(
        invocation_id="root", tool_call_id="c1", tool_name="add", status="completed", output="3"
    )
    observed = ToolCallObservation.model_validate(call.model_dump(exclude={"output"}))
    assert (observed.tool_name, observed.status) == ("add", "completed")


def test_a_trajectory_holds_turns_that_the_verifier_resolves_later() -> None:
    turn = TrajectoryTurn(
        invocation_id="root",
        task_id="t",
        rollout_id="r",
        turn_no=1,
        timestamp=1.5,
        question="2+2",
        answer=["4"],
    )
    trajectory = TrajectoryRecord(task_id="t", rollout_id="r", turns=[turn])
    trajectory.turns[-1].resolved = True
    assert trajectory.model_dump(mode="json")["turns"][0]["resolved"] is True
