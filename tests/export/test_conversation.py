from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.export._conversation import ChatTranscript, TextOptions, read_conversation
from nemo_gym.export.report import LeftOut, Loss, Unsuitable
from nemo_gym.export.rollouts import ScoredRollout
from nemo_gym.failures import Outcome
from tests.export.rows import TOOL, call, output, row, text, thought

WEATHER = [thought("I look it up."), call("Oslo", "c9"), output("rain", "c9"), text("It rains.")]


def read(given: dict[str, Any], **options: Any) -> ChatTranscript:
    return read_conversation(
        ScoredRollout(given, "in:1", "0", 1.0, Outcome.COMPLETED), TextOptions(**options)
    )


def test_messages_equal_the_engine_request_and_its_answer() -> None:
    chat = read(row(0, items=WEATHER, prompt="Weather?", tools=[TOOL]), arguments="string")
    assert chat.prompt == [{"role": "user", "content": "Weather?"}]
    assert chat.completion == [
        {
            "role": "assistant",
            "content": "<think>I look it up.</think>",
            "tool_calls": [
                {
                    "id": "call00000",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city":"Oslo"}'},
                }
            ],
        },
        {"role": "tool", "content": "rain", "tool_call_id": "call00000", "name": "get_weather"},
        {"role": "assistant", "content": "It rains."},
    ]
    assert [tool["function"]["name"] for tool in chat.tools] == ["get_weather"]
    assert chat.losses == ()


def test_instructions_and_developers_are_the_system(tmp_path: Any) -> None:
    given = row(0, prompt=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi"}])
    given["responses_create_params"]["instructions"] = "Be kind."
    assert [(m["role"], m["content"]) for m in read(given).prompt] == [
        ("system", "Be kind."),
        ("system", "Be brief."),
        ("user", "Hi"),
    ]


def test_reasoning_is_written_as_the_option_says() -> None:
    given = row(0, items=[thought("Hm."), text("Yes.")])
    assert read(given).completion[0]["content"] == "<think>Hm.</think>Yes."
    assert read(given, reasoning="field").completion[0] == {
        "role": "assistant",
        "content": "Yes.",
        "reasoning_content": "Hm.",
    }
    dropped = read(given, reasoning="drop")
    assert dropped.completion[0]["content"] == "Yes."
    assert dropped.losses == (Loss.REASONING,)


def test_equal_conversations_are_equal_whatever_the_ids_of_their_calls() -> None:
    one = read(row(0, items=[call("Oslo", "a"), output("x", "a"), text("y")]))
    other = read(row(0, items=[call("Oslo", "b7"), output("x", "b7"), text("y")]))
    assert one == other
    assert one.completion[0]["tool_calls"][0]["function"]["arguments"] == {"city": "Oslo"}


def test_items_after_the_last_turn_are_omitted_and_counted_as_a_loss() -> None:
    chat = read(row(0, items=[call("Oslo"), output("rain")]))
    assert [message["role"] for message in chat.completion] == ["assistant"]
    assert chat.losses == (Loss.TRAILING_OUTPUTS,)


def test_only_messages_of_the_policy_count_as_sampled() -> None:
    """In rows with token records, an assistant message without one was written by the agent."""
    written = {**text("The agent says."), "id": None}
    sampled = text("The policy says.") | {"_ng_tokens": {"call": 0, "masked": "missing_token_ids"}}
    user = {"type": "message", "role": "user", "content": "Go on."}
    chat = read(row(0, items=[written, user, sampled]))
    assert chat.sampled == {2}
    assert chat.losses == (Loss.UNSAMPLED_TURNS,)
    assert read(row(0, items=[text("a"), user, text("b")])).sampled == {0, 2}


def test_token_fields_are_not_in_messages() -> None:
    ids = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.1]}
    chat = read(row(0, items=[text("a") | ids]))
    assert chat.completion == [{"role": "assistant", "content": "a"}]


MARKS: dict[str, dict[str, Any]] = {
    "message": {"written_by": "agent"},
    "untyped message": {"simulated_by": "user_model", "turn": 2},
    "answer": {"checked": True},
    "call": {"chosen_from": ["Oslo", "Rome"]},
    "output": {"_ng_tool_error": {"kind": "timeout", "type": "tool"}},
    "untyped output": {"cached": True},
    "reasoning": {"seconds": 1.5},
}


@pytest.mark.parametrize("marked", MARKS)
def test_marks_of_an_agent_are_in_no_message(marked: str) -> None:
    items = {
        "reasoning": thought("I look it up."),
        "call": call("Oslo", "c9"),
        "output": output("rain", "c9"),
        "answer": text("It rains."),
        "message": {"type": "message", "role": "user", "content": "Are you sure?"},
        "untyped message": {"role": "user", "content": "Really?"},
        "second call": call("Rome", "c10"),
        "untyped output": {"call_id": "c10", "output": "sun"},
        "last answer": text("Yes."),
    }
    with_marks = {**items, marked: items[marked] | MARKS[marked]}
    chats = [read(row(0, items=each.values(), tools=[TOOL])) for each in (items, with_marks)]
    assert chats[0] == chats[1]
    assert len(chats[0].completion) == 8


def test_answers_in_the_prompt_are_a_loss_only_if_they_are_trained_on() -> None:
    shots = [
        {"role": "user", "content": "1?"},
        {"role": "assistant", "content": "one"},
        {"role": "user", "content": "2?"},
    ]
    chat = read(row(0, prompt=shots))
    assert chat.losses == ()
    assert chat.losses_of_sft == (Loss.UNSAMPLED_TURNS,)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (row(0, items=[output("x")]), LeftOut.NO_ANSWER),
        (row(0, items=[call("Oslo", arguments="{"), text("a")]), LeftOut.MALFORMED_ARGUMENTS),
        (row(0, items=[call("Oslo", arguments="[1]"), text("a")]), LeftOut.MALFORMED_ARGUMENTS),
        (row(0, items=[output("x", "?"), text("a")]), LeftOut.TURN_ORDER),
        (row(0, tools=[{"type": "web_search"}]), LeftOut.UNCONVERTIBLE),
        (row(0, items=[{"type": "web_search_call", "id": "w"}, text("a")]), LeftOut.UNCONVERTIBLE),
        (row(0, items=[text("a") | {"_ng_tokens": {"reason": "compacted"}}]), LeftOut.REWRITTEN_HISTORY),
        (
            row(0, items=[call("Oslo")], prompt=[{"role": "assistant", "content": "Let me see:"}]),
            LeftOut.PREFILLED_ANSWER,
        ),
        (
            row(0, prompt=[{"role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}]),
            LeftOut.MULTIMODAL,
        ),
    ],
)
def test_rollouts_that_messages_cannot_represent_are_left_out(given: dict[str, Any], reason: LeftOut) -> None:
    with pytest.raises(Unsuitable) as caught:
        read(given)
    assert caught.value.reason is reason


def test_a_drift_of_tokens_changes_no_message() -> None:
    given = row(
        0, items=[text("a") | {"_ng_tokens": {"reason": "template_rewrite", "masked": "raw_logprobs"}}]
    )
    assert read(given).completion == [{"role": "assistant", "content": "a"}]
