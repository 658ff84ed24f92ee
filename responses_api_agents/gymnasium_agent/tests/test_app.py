"""Episodes in a step-style environment: their course, their end, and their fields in the row."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fastapi import FastAPI
from pydantic import Field

from nemo_gym.base_resources_server import BaseResourcesServerConfig
from nemo_gym.failures import Boundary, Failure
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.resources.gymnasium import GymnasiumServer, StepResult, extract_text
from nemo_gym.testing import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.gymnasium_agent.app import GymnasiumAgent
from tests.serving.environments import ScriptedModel, call, text

ROW: dict[str, Any] = {"responses_create_params": {"input": "play"}, "level": 3, "_ng_task_index": 7}
GO_ON: StepResult = ("go on", 0.25, False, False, {})
WON: StepResult = (None, 1.0, True, False, {"result": "won"})


class ScriptedEnvironment(GymnasiumServer):
    """Answers each step with the next of the results that it was given; an exception is raised."""

    config: BaseResourcesServerConfig
    opening: tuple[str | None, dict[str, Any]] = (None, {})
    results: list[Any] = Field(default_factory=list)
    seen: list[str] = Field(default_factory=list)
    metadata: list[dict[str, Any]] = Field(default_factory=list)
    closed: list[Any] = Field(default_factory=list)

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/close")(self.close)
        return app

    async def reset(
        self, metadata: dict[str, Any], session_id: str | None = None
    ) -> tuple[str | None, dict[str, Any]]:
        self.session_state[session_id] = iter(self.results)
        self.metadata.append(metadata)
        return self.opening

    async def step(
        self, action: NeMoGymResponse, metadata: dict[str, Any], session_id: str | None = None
    ) -> StepResult:
        self.seen.append(extract_text(action))
        self.metadata.append(metadata)
        result = next(self.episode(session_id))
        if isinstance(result, Exception):
            raise result
        return result  # type: ignore[no-any-return]

    async def close(self) -> dict[str, str]:
        self.closed.append("close")
        return {}

    async def release_session(self, session_id: str | None) -> None:
        self.closed.append(session_id)
        await super().release_session(session_id)


class Gym(InProcessGym):
    def __init__(
        self, results: list[Any], turns: list[Any], opening: Any = (None, {}), **agent_options: Any
    ) -> None:
        super().__init__()
        environment = self.add(ScriptedEnvironment, "env")
        model = self.add(ScriptedModel, "policy_model")
        assert isinstance(environment, ScriptedEnvironment)
        assert isinstance(model, ScriptedModel)
        self.environment, self.model = environment, model
        environment.results, environment.opening, model.turns = results, opening, turns
        self.add(
            GymnasiumAgent,
            "agent",
            resources_server={"type": "resources_servers", "name": "env"},
            model_server={"type": "responses_api_models", "name": "policy_model"},
            **agent_options,
        )

    async def failure(self) -> Failure:
        with pytest.raises(UpstreamError) as caught:
            await self.run("agent", ROW)
        assert caught.value.failure is not None
        return caught.value.failure


async def test_steps_follow_answers_until_the_environment_is_done() -> None:
    gym = Gym([GO_ON, WON], [[text("first")], [text("second")]], opening=("a board", {}))
    row = await gym.run("agent", ROW)
    assert gym.environment.seen == ["first", "second"]
    assert (row["reward"], row["step_rewards"]) == (1.25, [0.25, 1.0])
    assert (row["terminated"], row["truncated"], row["info"]) == (True, False, {"result": "won"})
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("completed", "terminated")
    assert (row["level"], row["_ng_usage"]["total_tokens"]) == (3, 30)
    assert set(row["_ng_timing"]) == {"seed_session", "act", "total", "queue", "calls"}


async def test_the_policy_reads_the_row_then_what_the_environment_shows() -> None:
    gym = Gym([GO_ON, WON], [[text("first")], [text("second")]], opening=("a board", {}))
    row = await gym.run("agent", ROW)
    first, second = ([item["content"] for item in request["input"]] for request in gym.model.requests)
    assert first == ["play", "a board"]
    assert [second[0], second[1], second[3]] == ["play", "a board", "go on"]
    assert [item["content"] for item in row["responses_create_params"]["input"]] == ["play", "a board"]
    said = [(item["role"], item["type"]) for item in row["response"]["output"]]
    assert said == [("assistant", "message"), ("user", "message"), ("assistant", "message")]


async def test_an_open_episode_may_add_messages_and_tools_to_the_row() -> None:
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
    opening = {"input": [{"type": "message", "role": "user", "content": "a riddle"}], "tools": [tool]}
    seen: StepResult = (None, 0.0, False, False, {"tool_outputs": [{"call_id": "c1", "output": "a sky"}]})
    turns = [[call("look", "{}", "c1")], [call("look", "{}", "c2")], [text("tea")]]
    gym = Gym([seen, GO_ON, WON], turns, opening=("now", {"opening": opening}))
    row = await gym.run("agent", ROW)
    params = row["responses_create_params"]
    assert [item["content"] for item in params["input"]] == ["play", "a riddle", "now"]
    assert params["tools"] == [tool]
    assert [request["tools"] for request in gym.model.requests] == [[tool]] * 3
    assert [error["kind"] for error in row["_ng_tool_errors"]] == ["no_effect"]


async def test_the_environment_gets_the_rows_own_fields_at_reset_and_at_every_step() -> None:
    gym = Gym([GO_ON, WON], [[text("first")], [text("second")]])
    await gym.run("agent", ROW)
    assert gym.environment.metadata == [{"level": 3, "_ng_task_index": 7}] * 3


async def test_the_last_reward_can_be_the_attempts() -> None:
    row = await Gym([GO_ON, WON], [[text("a")], [text("b")]], reward="last").run("agent", ROW)
    assert (row["reward"], row["step_rewards"]) == (1.0, [0.25, 1.0])


@pytest.mark.parametrize(
    ("results", "turns", "reason", "reward"),
    [
        ([("late", 0.5, False, True, {})], [[text("a")]], "truncated", 0.5),
        ([GO_ON] * 3, [[text("a")]] * 3, "max_steps", 0.75),
        ([GO_ON], [[text("a")], "overflow"], "context_overflow", 0.25),
        (
            [GO_ON],
            [{"output": [text("cut")], "incomplete_details": {"reason": "max_output_tokens"}}],
            "max_output_tokens",
            0.25,
        ),
        (
            [WON],
            [{"output": [text("cut")], "incomplete_details": {"reason": "max_output_tokens"}}],
            "max_output_tokens",
            1.0,
        ),
    ],
)
async def test_an_episode_that_is_cut_keeps_the_rewards_it_has(
    results: list[Any], turns: list[Any], reason: str, reward: float
) -> None:
    gym = Gym(results, turns, max_steps=3)
    row = await gym.run("agent", ROW)
    assert (row["_ng_outcome"], row["_ng_end_reason"], row["reward"]) == ("truncated", reason, reward)
    assert row["truncated"] is True
    assert gym.environment.session_state == {}


async def test_an_episode_that_was_cut_can_be_worth_nothing_or_be_left_out_of_training() -> None:
    zero = await Gym([GO_ON], [[text("a")]], max_steps=1, on_truncation="zero").run("agent", ROW)
    assert (zero["reward"], zero["step_rewards"], zero["truncated"]) == (0.0, [0.25], True)
    masked = await Gym([GO_ON], [[text("a")]], max_steps=1, on_truncation="mask").run("agent", ROW)
    assert (masked["reward"], masked["_ng_masked"]) == (0.25, True)


async def test_tool_outputs_answer_their_calls_and_an_ignored_call_gets_an_error() -> None:
    outputs = [{"call_id": "b", "output": {"count": 2}}]
    gym = Gym(
        [(None, 0.0, False, False, {"tool_outputs": outputs}), WON],
        [[call("look", "{}", "a"), call("look", "{}", "b")], [text("done")]],
    )
    await gym.run("agent", ROW)
    answers = {
        item["call_id"]: item["output"]
        for item in gym.model.requests[1]["input"]
        if item["type"] == "function_call_output"
    }
    assert answers == {"b": '{"count":2}', "a": '{"error":"look had no effect"}'}


LOOK = {"type": "function", "name": "look", "parameters": {}}


@pytest.mark.parametrize(
    ("tools", "end", "kinds"),
    [
        ([LOOK], GO_ON, ["no_effect"]),
        ([], GO_ON, ["unknown_tool"]),
        ([LOOK], WON, []),
        ([LOOK], (None, 0.0, False, True, {}), []),
    ],
    ids=["declared", "not declared", "terminated", "truncated"],
)
async def test_a_call_without_an_output_is_counted_unless_the_episode_is_over(
    tools: list[Any], end: StepResult, kinds: list[str]
) -> None:
    gym = Gym([end, WON], [[call("look", "{}", "a")], [text("done")]])
    row = await gym.run("agent", {**ROW, "responses_create_params": {"input": "play", "tools": tools}})
    assert [error["kind"] for error in row.get("_ng_tool_errors", [])] == kinds


async def test_the_session_is_closed_once_however_the_episode_ends() -> None:
    won = Gym([WON], [[text("a")]])
    await won.run("agent", ROW)
    cut = Gym([GO_ON], [[text("a")]], max_steps=1)
    await cut.run("agent", ROW)
    broken = Gym([ValueError("a bug")], [[text("a")]])
    failure = await broken.failure()
    assert (failure.boundary, failure.message) == (Boundary.VERIFIER, "ValueError: a bug")
    for gym in (won, cut, broken):
        assert len(gym.environment.closed) == 1
        assert gym.environment.session_state == {}
        assert len(gym.environment.middleware.access.sessions) == 0


@pytest.mark.parametrize("result", [WON, ValueError("a bug")])
async def test_an_environment_that_supports_it_gets_a_close_request(result: Any) -> None:
    gym = Gym([result], [[text("a")]], opening=(None, {"supports_explicit_close": True}))
    await gym.post("agent", "/run", ROW)
    assert gym.environment.closed.count("close") == 1


async def test_steps_are_numbered_for_an_environment_that_can_tell_them_apart() -> None:
    gym = Gym([GO_ON, WON], [[text("a")], [text("b")]], opening=(None, {"supports_step_idempotency": True}))
    await gym.run("agent", ROW)
    tags = [metadata.get("_ng_step_request_id") for metadata in gym.environment.metadata]
    assert tags[0] is None
    assert len({tag for tag in tags[1:] if tag}) == 2


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ((None, float("nan"), True, False, {}), "reward"),
        ((None, 0.0, False, False, {"tool_outputs": [{"call_id": "x", "output": ""}]}), "'x'"),
        ((None, 0.0, False, False, {"tool_outputs": ["x"]}), "{call_id, output}"),
    ],
)
async def test_a_step_that_makes_no_sense_is_a_failure_that_names_the_environment(
    result: StepResult, says: str
) -> None:
    failure = await Gym([result], [[text("a")]]).failure()
    assert (failure.boundary, failure.code, failure.peer) == (Boundary.VERIFIER, "malformed_step", "env")
    assert says in failure.message


async def test_a_row_that_never_fits_the_context_is_a_failure() -> None:
    assert (await Gym([WON], ["overflow"]).failure()).code == "context_overflow"


async def test_a_cancelled_attempt_closes_its_session() -> None:
    gym = Gym([WON], [30.0])
    attempt = asyncio.create_task(gym.run("agent", ROW))
    await gym.model.started.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert gym.model.cancelled == 1
    assert gym.environment.session_state == {}


async def test_tokens_stay_in_the_trajectory_and_do_not_travel_to_the_environment() -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
    gym = Gym([GO_ON, WON], [[{**text("a"), **tokens}], [text("b")]])
    bodies: list[bytes] = []
    original = gym.transport.send

    async def send(url: str, request: Any) -> Any:
        if request.path in ("/step", "/v1/responses"):
            bodies.append(request.body)
        return await original(url, request)

    gym.transport.send = send  # type: ignore[method-assign, assignment]
    row = await gym.run("agent", ROW)
    assert not any(b"token_ids" in body for body in bodies)
    assert row["response"]["output"][0]["generation_token_ids"] == [2]


async def test_skip_verification_beats_what_the_environment_scored() -> None:
    row = await Gym([WON], [[text("a")]], skip_verification=True, skip_verification_reward=0.5).run(
        "agent", ROW
    )
    assert row["reward"] == 0.5


async def test_without_a_task_the_agent_passes_the_question_on() -> None:
    gym = Gym([], [[text("hello")]])
    reply = await gym.post("agent", "/v1/responses", {"input": "hi"})
    assert NeMoGymResponse.model_validate_json(reply.body).output_text == "hello"
