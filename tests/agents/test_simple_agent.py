"""The episode and the policy loop over real servers in one event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nemo_gym.failures import Boundary
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.simple_agent.app import SimpleAgent
from tests.serving.environments import CounterEnvironment, ScriptedModel, call, task_row, text


class Gym(InProcessGym):
    def __init__(self, turns: list[Any], **agent_options: Any) -> None:
        super().__init__()
        environment = self.add(CounterEnvironment, "env")
        model = self.add(ScriptedModel, "policy_model")
        assert isinstance(environment, CounterEnvironment)
        assert isinstance(model, ScriptedModel)
        self.environment, self.model = environment, model
        model.turns = turns
        self.add(
            SimpleAgent,
            "agent",
            resources_server={"type": "resources_servers", "name": "env"},
            model_server={"type": "responses_api_models", "name": "policy_model"},
            **agent_options,
        )


async def test_an_attempt_calls_tools_until_the_model_answers_and_is_scored() -> None:
    gym = Gym([[call("add", '{"amount": 2}')], [call("add", '{"amount": 1}', "call_2")], [text("three")]])
    row = await gym.run("agent", task_row())
    assert row["reward"] == 3.0
    assert row["uuid"] == "row-1"
    assert row["_ng_outcome"] == "completed"
    assert row["_ng_end_reason"] == "final_answer"
    kinds = [item["type"] for item in row["response"]["output"]]
    assert kinds == ["function_call", "function_call_output"] * 2 + ["message"]
    assert row["response"]["output"][1]["output"] == '{"count":2}'
    assert row["_ng_usage"]["total_tokens"] == 45
    timing = row["_ng_timing"]
    assert set(timing) == {"queue", "seed_session", "act", "verify", "total", "calls"}
    assert all(seconds >= 0 for _, _, seconds in timing["calls"])


async def test_the_whole_conversation_goes_back_to_the_model_each_turn() -> None:
    gym = Gym([[call("add", '{"amount": 2}')], [text("two")]])
    await gym.run("agent", task_row())
    first, second = (request["input"] for request in gym.model.requests)
    assert [item["type"] for item in first] == ["message"]
    assert [item["type"] for item in second] == ["message", "function_call", "function_call_output"]


async def test_parallel_calls_are_answered_in_their_order() -> None:
    turn = [
        call("add", '{"amount": 1}', "a"),
        call("add", '{"amount": 1}', "b"),
        call("add", '{"amount": 1}', "c"),
    ]
    gym = Gym([turn, [text("three")]])
    output = (await gym.run("agent", task_row()))["response"]["output"]
    answers = [(item["call_id"], item["output"]) for item in output if item["type"] == "function_call_output"]
    assert answers == [("a", '{"count":1}'), ("b", '{"count":2}'), ("c", '{"count":3}')]


async def test_the_session_is_closed_once_the_attempt_is_over() -> None:
    gym = Gym([[text("nothing")]])
    await gym.run("agent", task_row())
    assert len(gym.environment.closed) == 1
    assert len(gym.environment.middleware.access.sessions) == 0
    assert gym.environment.counts == {}


async def test_attempts_at_the_same_time_have_sessions_of_their_own() -> None:
    gym = Gym([[call("add", '{"amount": 2}')]] * 8 + [[text("two")]] * 8)
    rows = await asyncio.gather(*(gym.run("agent", task_row()) for _ in range(8)))
    assert [row["reward"] for row in rows] == [2.0] * 8
    assert len(set(gym.environment.closed)) == 8


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("verify", "{}", "no tool named"),
        ("../verify", "{}", "no tool named"),
        ("%76erify", "{}", "no tool named"),
        ("close_session", "{}", "no tool named"),
        ("add", "{", "not valid JSON"),
        ("add", "[1]", "must be a JSON object"),
        ("add", '{"amount": "two"}', "do not fit"),
        ("refuse", "{}", "not allowed"),
        ("crash", "{}", "a bug in the tool"),
    ],
)
async def test_what_the_model_calls_wrongly_comes_back_as_a_tool_error(
    name: str, arguments: str, says: str
) -> None:
    gym = Gym([[call(name, arguments)], [text("sorry")]])
    row = await gym.run("agent", task_row())
    assert says in row["response"]["output"][1]["output"]
    assert row["reward"] == 0.0
    assert row["_ng_outcome"] == "completed"


async def test_a_task_cannot_declare_a_control_route_as_its_tool() -> None:
    gym = Gym([[text("hi")]])
    tools = [{"type": "function", "name": "verify", "parameters": {}}]
    with pytest.raises(UpstreamError) as caught:
        await gym.run("agent", {"responses_create_params": {"input": "x", "tools": tools}})
    assert caught.value.failure is not None
    assert caught.value.failure.code == "reserved_tool_name"


async def test_max_steps_truncates_the_attempt() -> None:
    gym = Gym([[call("add", '{"amount": 1}')]] * 5, max_steps=3)
    row = await gym.run("agent", task_row())
    assert (row["_ng_outcome"], row["_ng_end_reason"], row["reward"]) == ("truncated", "max_steps", 3.0)


async def test_a_reply_with_reasoning_alone_ends_the_attempt() -> None:
    gym = Gym([[{"type": "reasoning", "id": "rs", "summary": []}]])
    row = await gym.run("agent", task_row())
    assert row["_ng_end_reason"] == "final_answer"


async def test_an_answer_cut_by_its_limit_truncates_the_attempt() -> None:
    turn = {
        "output": [text("cut")],
        "status": "incomplete",
        "incomplete_details": {"reason": "max_output_tokens"},
    }
    row = await Gym([turn]).run("agent", task_row())
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("truncated", "max_output_tokens")


async def test_a_context_that_overflows_later_keeps_what_came_before() -> None:
    gym = Gym([[call("add", '{"amount": 2}')], "overflow"])
    row = await gym.run("agent", task_row())
    assert (row["_ng_outcome"], row["_ng_end_reason"], row["reward"]) == (
        "truncated",
        "context_overflow",
        2.0,
    )
    assert len(row["response"]["output"]) == 2


async def test_a_task_that_never_fits_the_context_is_a_failure_with_its_root_cause() -> None:
    gym = Gym(["overflow"])
    with pytest.raises(UpstreamError) as caught:
        await gym.run("agent", task_row())
    failure = caught.value.failure
    assert failure is not None
    assert (failure.boundary, failure.code) == (Boundary.ENGINE, "context_overflow")
    assert failure.hops == ("policy_model",)
    assert gym.environment.closed


async def test_a_verifier_that_raises_gives_a_failure_and_no_reward() -> None:
    gym = Gym([[text("hi")]])
    gym.environment.verify_error = "division by zero in the scorer"
    with pytest.raises(UpstreamError) as caught:
        await gym.run("agent", task_row())
    failure = caught.value.failure
    assert failure is not None
    assert failure.boundary is Boundary.VERIFIER
    assert "division by zero in the scorer" in failure.message
    assert b"reward" not in caught.value.response_content
    assert gym.environment.closed


async def test_a_server_that_restarted_in_between_is_noticed_and_nothing_is_made_up() -> None:
    gym = Gym([[call("add", '{"amount": 2}')], [text("two")]])
    gym.environment.middleware.access.incarnation = "first"

    async def seed_then_restart(*args: Any, **kwargs: Any) -> Any:
        reply = await original(*args, **kwargs)
        gym.environment.middleware.access.incarnation = "second"
        return reply

    original = gym.transport.send
    seeded = False

    async def send(url: str, request: Any) -> Any:
        nonlocal seeded
        if request.path == "/seed_session" and not seeded:
            seeded = True
            return await seed_then_restart(url, request)
        return await original(url, request)

    gym.transport.send = send  # type: ignore[method-assign, assignment]
    with pytest.raises(UpstreamError) as caught:
        await gym.run("agent", task_row())
    failure = caught.value.failure
    assert failure is not None
    assert (failure.code, failure.retryable) == ("session_lost", True)


async def test_a_cancelled_attempt_closes_its_session_and_cancels_the_model_call() -> None:
    gym = Gym([30.0])
    attempt = asyncio.create_task(gym.run("agent", task_row()))
    await gym.model.started.wait()
    attempt.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attempt
    assert gym.model.cancelled == 1
    assert len(gym.environment.closed) == 1


async def test_skip_verification_gives_the_configured_reward() -> None:
    row = await Gym([[text("hi")]], skip_verification=True, skip_verification_reward=0.5).run(
        "agent", task_row()
    )
    assert row["reward"] == 0.5
