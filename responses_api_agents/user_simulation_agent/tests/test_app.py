"""Conversations with a simulated user: the inputs of both models, and the end of the conversation."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import Boundary, Failure
from nemo_gym.openai_utils import NeMoGymResponse
from nemo_gym.testing import InProcessGym
from nemo_gym.transport.upstream_error import UpstreamError
from responses_api_agents.user_simulation_agent.app import UserSimulationAgent
from responses_api_agents.user_simulation_agent.user import DEFAULT_PROMPT, text_in
from tests.serving.environments import TOOLS, CounterEnvironment, ScriptedModel, call, text

STOP = "###STOP###"
SYSTEM = {"role": "system", "content": "Be polite."}
USER = {"role": "user", "content": "Please count."}
INSTRUCTIONS = "You want the counter at three."


def row_of(*said: dict[str, Any]) -> dict[str, Any]:
    params = {"input": list(said), "tools": TOOLS}
    return {"responses_create_params": params, "user_simulation": {"instructions": INSTRUCTIONS}}


class Gym(InProcessGym):
    def __init__(self, policy: list[Any], user: list[Any], **options: Any) -> None:
        super().__init__()
        environment = self.add(CounterEnvironment, "env")
        assert isinstance(environment, CounterEnvironment)
        self.environment = environment
        self.policy, self.user = self._model("policy_model", policy), self._model("user_model", user)
        self.add(
            UserSimulationAgent,
            "agent",
            resources_server={"type": "resources_servers", "name": "env"},
            model_server={"type": "responses_api_models", "name": "policy_model"},
            user_model_server={"type": "responses_api_models", "name": "user_model"},
            **options,
        )

    def _model(self, name: str, turns: list[Any]) -> ScriptedModel:
        model = self.add(ScriptedModel, name)
        assert isinstance(model, ScriptedModel)
        model.turns = [
            [text(turn)] if isinstance(turn, str) and turn != "overflow" else turn for turn in turns
        ]
        return model

    async def failure(self, row: dict[str, Any]) -> Failure:
        with pytest.raises(UpstreamError) as caught:
            await self.run("agent", row)
        assert caught.value.failure is not None
        return caught.value.failure


def shown(request: dict[str, Any]) -> list[tuple[str, str]]:
    return [(item["role"], text_in(item["content"])) for item in request["input"]]


async def test_a_conversation_goes_on_until_the_user_is_done() -> None:
    gym = Gym(
        [[call("add", '{"amount": 2}')], "Two.", [call("add", '{"amount": 1}', "c2")], "Three."],
        ["One more, please.", f"Thanks! {STOP}"],
    )
    row = await gym.run("agent", row_of(SYSTEM, USER))
    assert (row["reward"], row["_ng_outcome"], row["_ng_end_reason"]) == (3.0, "completed", "user_done")
    said = [
        text_in(item["content"]) if item["type"] == "message" else item["type"]
        for item in row["response"]["output"]
    ]
    called = ["function_call", "function_call_output"]
    assert said == [*called, "Two.", "One more, please.", *called, "Three.", "Thanks!"]
    assert gym.environment.closed


async def test_what_the_user_says_is_marked_and_is_not_the_policys() -> None:
    tokens = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}
    gym = Gym([[{**text("Two."), **tokens}], "Three."], [[{**text("More."), **tokens}], STOP])
    row = await gym.run("agent", row_of(USER))
    message = row["response"]["output"][1]
    assert message == {"type": "message", "role": "user", "content": "More.", "simulated_by": "user_model"}
    sampled = [item for item in row["response"]["output"] if "generation_token_ids" in item]
    assert [item["content"][0]["text"] for item in sampled] == ["Two."]
    assert (row["_ng_usage"]["total_tokens"], row["user_usage"]["total_tokens"]) == (30, 30)
    assert row["user_messages"] == 1
    assert gym.policy.requests[1]["input"][-1] == {"type": "message", "role": "user", "content": "More."}


async def test_the_user_sees_the_conversation_from_the_other_side_and_no_tools() -> None:
    gym = Gym(
        [[call("add", '{"amount": 2}')], "<think>secret</think>Two."],
        [STOP],
        user_params={"temperature": 0.5},
    )
    await gym.run("agent", row_of(SYSTEM, USER))
    request = gym.user.requests[0]
    role, *conversation = shown(request)
    assert role[0] == "system"
    assert INSTRUCTIONS in role[1]
    assert STOP in role[1]
    assert conversation == [
        ("user", "Hello, how can I help you?"),
        ("assistant", "Please count."),
        ("user", "Two."),
    ]
    assert request["temperature"] == 0.5
    assert not request.get("tools")


async def test_the_policy_never_sees_the_users_instructions() -> None:
    gym = Gym(["Two."], [STOP])
    await gym.run("agent", row_of(SYSTEM, USER))
    assert not any(INSTRUCTIONS in words for _, words in shown(gym.policy.requests[0]))


async def test_the_user_opens_where_the_row_says_nothing_yet() -> None:
    gym = Gym(["Three."], ["I need a count.", STOP])
    row = await gym.run("agent", row_of(SYSTEM))
    assert shown(gym.policy.requests[0]) == [("system", "Be polite."), ("user", "I need a count.")]
    assert row["user_messages"] == 1


async def test_an_answer_without_words_is_heard_as_such() -> None:
    gym = Gym([[{"type": "reasoning", "id": "rs", "summary": []}], "Yes?"], ["Hello?", STOP])
    await gym.run("agent", row_of(USER))
    assert shown(gym.user.requests[0])[-1] == ("user", "(no answer)")


@pytest.mark.parametrize(
    ("policy", "user", "options", "reason"),
    [
        (["One."] * 2, ["More."] * 2, {"max_turns": 2}, "max_turns"),
        ([[call("add", '{"amount": 1}')]] * 3, [], {"max_steps": 3}, "max_steps"),
        (["One.", "Two."], ["More.", "More."], {"max_steps": 2}, "max_steps"),
        (["One.", "overflow"], ["More."], {}, "context_overflow"),
        (
            [{"output": [text("cut")], "incomplete_details": {"reason": "max_output_tokens"}}],
            [],
            {},
            "max_output_tokens",
        ),
    ],
)
async def test_a_conversation_that_is_cut_counts_as_truncated_and_is_verified(
    policy: list[Any], user: list[Any], options: dict[str, Any], reason: str
) -> None:
    gym = Gym(policy, user, **options)
    row = await gym.run("agent", row_of(USER))
    assert (row["_ng_outcome"], row["_ng_end_reason"]) == ("truncated", reason)
    assert len(gym.policy.requests) == len(policy)


async def test_a_user_who_is_satisfied_by_the_last_turn_is_done() -> None:
    row = await Gym(["One."], [STOP], max_turns=1).run("agent", row_of(USER))
    assert row["_ng_end_reason"] == "user_done"


async def test_the_policy_cannot_end_the_conversation_with_the_stop_token() -> None:
    gym = Gym([f"Done. {STOP}", "Fine."], ["Not yet.", STOP])
    row = await gym.run("agent", row_of(USER))
    assert (len(gym.policy.requests), row["_ng_end_reason"]) == (2, "user_done")


async def test_prompt_and_stop_token_can_be_changed() -> None:
    gym = Gym(["One."], ["bye"], user_prompt="{instructions} Say {stop_token}.", stop_token="bye")
    await gym.run("agent", row_of(USER))
    assert shown(gym.user.requests[0])[0] == ("system", f"{INSTRUCTIONS} Say bye.")
    assert "{instructions}" in DEFAULT_PROMPT


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        ("", "returned no text"),
        ("<think>what do I want?</think>", "returned no text"),
        (
            {"output": [text("I wa")], "incomplete_details": {"reason": "max_output_tokens"}},
            "truncated message",
        ),
    ],
)
async def test_an_unusable_user_message_is_a_failure_and_no_score(turn: Any, says: str) -> None:
    gym = Gym(["One."], [turn])
    failure = await gym.failure(row_of(USER))
    assert (failure.code, failure.retryable, failure.peer) == ("user_simulation_failed", True, "user_model")
    assert says in failure.message
    assert gym.environment.closed


async def test_a_user_who_is_done_before_it_began_is_a_failure() -> None:
    failure = await Gym([], [STOP]).failure(row_of(SYSTEM))
    assert "before the policy was asked" in failure.message


async def test_a_user_model_that_fails_is_named() -> None:
    failure = await Gym(["One."], ["overflow"]).failure(row_of(USER))
    assert (failure.boundary, failure.hops) == (Boundary.ENGINE, ("user_model",))


async def test_a_user_model_that_overflows_later_does_not_end_the_policys_attempt() -> None:
    failure = await Gym(["One.", "Two."], ["Go on.", "overflow"]).failure(row_of(USER))
    assert (failure.boundary, failure.hops) == (Boundary.ENGINE, ("user_model",))


async def test_a_row_without_instructions_is_refused() -> None:
    failure = await Gym(["One."], [STOP]).failure({"responses_create_params": {"input": "count"}})
    assert (failure.code, failure.param) == ("invalid_row", "user_simulation")


async def test_without_a_task_there_is_one_turn_of_the_policy() -> None:
    gym = Gym([[call("add", '{"amount": 1}')], "One."], [])
    reply = await gym.post("agent", "/v1/responses", {"input": "count", "tools": TOOLS})
    assert NeMoGymResponse.model_validate_json(reply.body).output_text == "One."


def test_the_text_of_a_message_is_that_of_its_parts() -> None:
    parts = [
        {"type": "input_text", "text": "a"},
        {"type": "input_image"},
        {"type": "input_text", "text": "b"},
    ]
    assert (text_in(parts), text_in("a"), text_in(None)) == ("ab", "a", "")


async def test_failed_tool_calls_are_in_the_row_beside_what_the_user_said() -> None:
    gym = Gym([[call("crash", "{}")], "It broke."], [STOP])
    row = await gym.run("agent", row_of(USER))
    (error,) = row["_ng_tool_errors"]
    assert (error["tool"], error["kind"], error["count"]) == ("crash", "raised", 1)
    assert row["user_messages"] == 0
