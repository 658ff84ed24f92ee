"""Bodies of an agent's sessions: grants of either kind, and the state that a failed setup leaves behind."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from nemo_gym.protocol.agent_sessions import (
    AgentSeedSessionRequest,
    AgentSessionSetupError,
    AgentSessionState,
)
from nemo_gym.protocol.tool_access import DirectHTTPToolAccess, MCPToolAccess

SEED = {
    "agent_session_id": "mine",
    "episode_id": {"rollout_id": "3-0"},
    "task_id": {"taskset": "s", "task_id": "t"},
    "sandbox_access": {"connection": {"provider_config_ref": "box", "descriptor": {"sandbox_id": "b1"}}},
}


def test_each_grant_keeps_its_kind_after_json() -> None:
    direct = {
        "kind": "direct_http",
        "name": "tools",
        "base_url": "http://tools:1/",
        "cookies": {"session": "c"},
    }
    mcp = {"kind": "mcp", "name": "more", "connection": {"url": "http://tools:1/mcp", "headers": {"a": "b"}}}
    seed = AgentSeedSessionRequest.model_validate({**SEED, "tool_accesses": [direct, mcp]})
    again = AgentSeedSessionRequest.model_validate_json(seed.model_dump_json())
    assert again == seed
    assert [type(access) for access in again.tool_accesses] == [DirectHTTPToolAccess, MCPToolAccess]
    assert again.sandbox_access is not None
    assert again.sandbox_access.connection.kind == "direct"


@pytest.mark.parametrize(
    "wrong", [{"agent_session_id": ""}, {"tool_accesses": [{"kind": "ftp"}]}, {"extra": 1}]
)
def test_an_invalid_seed_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AgentSeedSessionRequest.model_validate({**SEED, **wrong})


def test_a_failed_setup_has_the_cause_and_the_state_to_close() -> None:
    state = AgentSessionState(AgentSeedSessionRequest.model_validate(SEED))
    cause = RuntimeError("the sandbox is gone")
    failure = AgentSessionSetupError(state, error=cause)
    assert (failure.state, failure.error, str(failure)) == (state, cause, "the sandbox is gone")
