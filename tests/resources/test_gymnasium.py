"""The base of step-style environments, called directly and over its routes."""

from __future__ import annotations

from typing import Any
from unittest.mock import MagicMock

import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel, Field

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.failures import InputError
from nemo_gym.openai_utils import NeMoGymResponse, NeMoGymResponseFunctionToolCall
from nemo_gym.resources.gymnasium import last_action
from nemo_gym.rows.models import read_task
from nemo_gym.server_utils import ServerClient
from resources_servers.gymnasium import (
    EnvResetRequest,
    EnvStepRequest,
    GymnasiumServer,
    extract_text,
)
from tests.resources.unreadable import NO_REWARDS, UNREADABLE
from tests.serving.environments import call, text

ROW: dict[str, Any] = {"responses_create_params": {"input": "count"}, "start": 2}


def response(*output: dict[str, Any]) -> dict[str, Any]:
    return {"id": "r", "created_at": 0, "model": "m", "object": "response", "output": list(output)}


class Counting(GymnasiumServer):
    """Counts the steps of each session and ends on the answer "stop"."""

    config: BaseResourcesServerConfig
    closed: list[Any] = Field(default_factory=list)

    async def reset(self, metadata: dict[str, Any], session_id: str | None = None) -> Any:
        self.session_state[session_id] = metadata["start"]
        return "start", {}

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> Any:
        self.session_state[session_id] = self.episode(session_id) + 1
        calls = (item for item in action.output if isinstance(item, NeMoGymResponseFunctionToolCall))
        outputs = [self.tool_output(call, {"n": 1}) for call in calls]
        info = {"tool_outputs": outputs} if outputs else {}
        return None, float(self.session_state[session_id]), extract_text(action) == "stop", False, info

    async def release_session(self, session_id: str | None) -> None:
        self.closed.append(session_id)
        await super().release_session(session_id)


@pytest.fixture
def server() -> Counting:
    config = BaseResourcesServerConfig(host="", port=0, entrypoint="", name="counting")
    return Counting(config=config, server_client=MagicMock(spec=ServerClient))


def test_an_episode_over_its_routes(server: Counting) -> None:
    client = TestClient(server.setup_webserver())
    assert client.post("/reset", json=ROW).json() == {"observation": "start", "info": {}}
    assert len(server.middleware.access.sessions) == 1
    step = client.post("/step", json={**ROW, "response": response(text("one"))}).json()
    assert step == {"observation": None, "reward": 3.0, "terminated": False, "truncated": False, "info": {}}
    step = client.post(
        "/step", json={**ROW, "response": response(call("f", "{}", "c1"), text("stop"))}
    ).json()
    assert (step["reward"], step["terminated"]) == (4.0, True)
    assert step["info"] == {"tool_outputs": [{"call_id": "c1", "output": '{"n":1}'}]}
    assert (server.session_state, len(server.closed), len(server.middleware.access.sessions)) == ({}, 1, 0)
    assert client.post("/close_session").json()["was_open"] is False
    assert len(server.closed) == 1


def test_a_reset_starts_a_new_episode_and_sessions_are_separate(server: Counting) -> None:
    app = server.setup_webserver()
    one, other = TestClient(app), TestClient(app)
    one.post("/reset", json=ROW)
    other.post("/reset", json={**ROW, "start": 10})
    going_on = {**ROW, "response": response(text("on"))}
    assert one.post("/step", json=going_on).json()["reward"] == 3.0
    assert other.post("/step", json=going_on).json()["reward"] == 11.0
    one.post("/reset", json=ROW)
    assert one.post("/step", json=going_on).json()["reward"] == 3.0


def test_a_step_without_an_open_episode_is_refused(server: Counting) -> None:
    client = TestClient(server.setup_webserver())
    refused = client.post("/step", json={**ROW, "response": response(text("on"))})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_episode")
    verdict = client.post("/verify", json={**ROW, "response": response(text("on"))})
    assert (verdict.status_code, verdict.json()["error"]["code"]) == (409, "scored_by_steps")
    assert "gymnasium_agent" in verdict.json()["error"]["remedy"]
    assert client.get("/reverify_mode").json() == "unsupported"


async def test_reset_and_step_can_be_called_directly(server: Counting) -> None:
    request = MagicMock(session={"session_id": "s"})
    await server._reset_endpoint(EnvResetRequest.model_validate(ROW), request)
    step = EnvStepRequest.model_validate({**ROW, "response": response(text("stop"))})
    answer = await server._step_endpoint(step, request)
    assert (answer.terminated, server.session_state, server.closed) == (True, {}, ["s"])


class Echoing(Counting):
    """Puts a value that no row can hold into its results, as the answer or the row asks."""

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> Any:
        await super().step(action, metadata, session_id)
        name = metadata.get("asks", extract_text(action))
        echo = UNREADABLE[name]() if name in UNREADABLE else name
        reward = NO_REWARDS.get(name, -1.0 if name in ("", "lost") else 1.0)
        return echo if name in SHOWN else None, reward, name == "half_a_pair", False, {"echo": echo}


SHOWN = ("surrogate", "half_a_pair", "object")
"""Values that are the observation too."""


@pytest.fixture
def echoing() -> Echoing:
    config = BaseResourcesServerConfig(host="", port=0, entrypoint="", name="echoing")
    return Echoing(config=config, server_client=MagicMock(spec=ServerClient))


@pytest.mark.parametrize("name", [*UNREADABLE, *NO_REWARDS])
def test_an_answer_whose_step_no_row_can_hold_ends_its_episode(echoing: Echoing, name: str) -> None:
    client = TestClient(echoing.setup_webserver())
    client.post("/reset", json=ROW)
    assert client.post("/step", json={**ROW, "response": response(text("on"))}).json()["reward"] == 1.0
    step = client.post("/step", json={**ROW, "response": response(text(name))}).json()
    assert (step["reward"], step["terminated"], step["observation"]) == (-1.0, True, None)
    assert step["info"]["answer_fault"] == "raised"
    assert step["info"]["answer_fault_detail"]
    assert (echoing.session_state, len(echoing.middleware.access.sessions)) == ({}, 0)


def test_an_environment_whose_steps_no_row_can_hold_fails(echoing: Echoing) -> None:
    client = TestClient(echoing.setup_webserver(), raise_server_exceptions=False)
    for asks in ("surrogate", "nan"):
        client.post("/reset", json=ROW)
        step = client.post("/step", json={**ROW, "asks": asks, "response": response(text("on"))})
        assert (step.status_code, step.json()["error"]["type"]) == (500, "verifier")
    assert step.json()["error"]["code"] == "malformed_step"
    assert len(echoing.session_state) == 1


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("<action>hit</action>", "hit"),
        ("<ACTION> Stand </action>", "Stand"),
        ("<action>hit</action> no, <action>stand</action>", "stand"),
        ("<action>hit</action> or <action>stand", "hit"),
        ("<think><action>hit</action></think>", None),
        ("hit", None),
        ("</action><action>", None),
        ("<action></action>", ""),
    ],
)
def test_the_last_complete_action_counts(said: str, action: str | None) -> None:
    assert last_action(NeMoGymResponse.model_validate(response(text(said)))) == action


def test_an_invalid_row_is_reported() -> None:
    class Task(BaseModel):
        seed: int
        index: int = Field(alias="_ng_task_index")

    assert read_task(Task, {"seed": 1, "_ng_task_index": 4, "other": "x"}).index == 4
    with pytest.raises(InputError, match=r"seed: .*; _ng_task_index: ") as caught:
        read_task(Task, {"seed": "x"})
    assert caught.value.failure.param == "seed"
