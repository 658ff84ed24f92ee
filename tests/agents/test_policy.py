"""A policy's conversation: the trajectory, the requests to the model, and the end of a turn."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from nemo_gym.agents.policy import Trajectory, add_usage, calls_in, drop_tokens, input_items, read_answer
from nemo_gym.agents.tools import FailedToolCall
from nemo_gym.failures import AgentError
from nemo_gym.rows.tool_errors import FailedCall, ToolErrorKind
from nemo_gym.rows.verdict import EndReason
from tests.serving.environments import call, text

TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.5]}


def answer(*output: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "r", "output": list(output), **fields}


def sent(trajectory: Trajectory) -> dict[str, Any]:
    body: dict[str, Any] = orjson.loads(trajectory.request_body())
    return body


def test_a_question_in_plain_words_becomes_a_message() -> None:
    trajectory = Trajectory({"input": "hi", "temperature": 0.5})
    message = {"role": "user", "content": "hi", "type": "message"}
    assert sent(trajectory) == {"temperature": 0.5, "input": [message]}
    assert input_items([message]) == [message]


def test_every_turn_is_kept_and_goes_back_as_text_only() -> None:
    trajectory = Trajectory({"input": "hi"})
    record = {"_ng_tokens": {"masked": "x"}, "routed_experts": "e"}
    trajectory.add_answer(answer({**call("f", "{}"), **TOKENS, **record}))
    trajectory.add_tool_output("call_1", "out")
    trajectory.add_user_message("and?", simulated_by="user_model")
    trajectory.add_answer(answer(text("done")))
    kept = trajectory.end(EndReason.FINAL_ANSWER).response["output"]
    assert [item["type"] for item in kept] == ["function_call", "function_call_output", "message", "message"]
    assert kept[0] == {**call("f", "{}"), **TOKENS, **record}
    assert kept[2]["simulated_by"] == "user_model"
    goes_back = sent(trajectory)["input"][1:]
    assert goes_back[0] == drop_tokens(kept[0]) == call("f", "{}")
    assert goes_back[2] == {"role": "user", "content": "and?", "type": "message"}
    assert (trajectory.steps, trajectory.last_answer["output"]) == (2, [text("done")])


def test_the_attempt_has_the_fields_of_the_last_answer_and_the_usage_of_all() -> None:
    trajectory = Trajectory({"input": "hi"})
    usage = {"input_tokens": 3, "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 1}}
    trajectory.add_answer(answer(text("a"), usage=usage, model="one"))
    trajectory.add_answer(answer(text("b"), model="two"))
    trajectory.add_answer(answer(text("c"), usage=usage, model="three"))
    act = trajectory.end(EndReason.MAX_STEPS)
    assert (act.response["model"], act.end_reason) == ("three", EndReason.MAX_STEPS)
    assert act.response["usage"] == {
        "input_tokens": 6,
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 2},
    }


def test_an_overflow_leaves_an_incomplete_response() -> None:
    trajectory = Trajectory({"input": "hi"})
    trajectory.add_answer(answer(text("a"), status="completed"))
    response = trajectory.end(EndReason.CONTEXT_OVERFLOW).response
    assert (response["status"], response["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )


def test_unreported_usage_stays_unknown() -> None:
    assert add_usage(None, None) is None
    assert add_usage(None, {"total_tokens": 1}) == {"total_tokens": 1}
    assert add_usage({"total_tokens": 1}, None) == {"total_tokens": 1}


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"output": null}', b'{"choices": []}'])
def test_what_is_no_answer_names_the_model(body: bytes) -> None:
    with pytest.raises(AgentError) as caught:
        read_answer(body, "policy_model")
    assert (caught.value.failure.code, caught.value.failure.peer) == ("malformed_answer", "policy_model")


def test_calls_are_found_in_their_order() -> None:
    calls = [call("f", "{}", "a"), call("g", "{}", "b")]
    assert calls_in(answer(text("x"), calls[0], {"type": "reasoning"}, calls[1])) == calls


@pytest.mark.parametrize("reason", list(EndReason))
def test_an_attempt_is_completed_by_its_own_end_and_truncated_by_a_limit(
    reason: EndReason,
) -> None:
    ended = {EndReason.FINAL_ANSWER, EndReason.TERMINATED, EndReason.USER_DONE}
    assert reason.outcome.value == ("completed" if reason in ended else "truncated")


def test_a_failed_output_is_marked_and_counted_and_goes_back_as_text_only() -> None:
    trajectory = Trajectory({"input": "hi"})
    trajectory.add_answer(answer(call("f", "{}")))
    failed = FailedCall("f", ToolErrorKind.RAISED, "ValueError: boom", "app.py:3")
    trajectory.add_failed_output("call_1", FailedToolCall(failed, '{"error":"boom"}'))
    item = {"type": "function_call_output", "call_id": "call_1", "output": '{"error":"boom"}'}
    assert sent(trajectory)["input"][-1] == item
    act = trajectory.end(EndReason.FINAL_ANSWER)
    assert act.response["output"][-1] == {**item, "_ng_tool_error": failed.to_json()}
    assert act.notes == {"_ng_tool_errors": [{**failed.to_json(), "count": 1}]}


def test_an_attempt_without_a_failed_call_has_no_notes() -> None:
    trajectory = Trajectory({"input": "hi"})
    trajectory.add_answer(answer(call("f", "{}")))
    trajectory.add_tool_output("call_1", "out")
    assert trajectory.end(EndReason.FINAL_ANSWER).notes == {}
