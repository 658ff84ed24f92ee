"""Answers of the chat route."""

from __future__ import annotations

from typing import Any

from tests.mock_engine.wire import ADD, THOUGHTFUL, TRAINING, USER, running


async def test_a_chat_answer_has_the_form_that_trainers_read() -> None:
    async with running(THOUGHTFUL) as wire:
        status, answer = await wire.chat(tools=[ADD], **TRAINING)
        _, prompt = await wire.post("/tokenize", messages=[USER], tools=[ADD])
    choice = answer["choices"][0]
    message = choice["message"]
    assert status == 200
    assert (message["content"], message["reasoning"]) == ("Let me add.", "Two numbers.")
    assert message["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"a": 1}'}
    assert (choice["finish_reason"], choice["stop_reason"]) == ("tool_calls", None)
    assert answer["prompt_token_ids"] == prompt["tokens"]
    named = choice["logprobs"]["content"]
    assert [token["token"] for token in named] == [f"token_id:{token}" for token in choice["token_ids"]]
    assert answer["usage"] == {
        "prompt_tokens": len(prompt["tokens"]),
        "completion_tokens": len(choice["token_ids"]),
        "total_tokens": len(prompt["tokens"]) + len(choice["token_ids"]),
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 6},
    }


async def test_the_ids_of_an_episode_of_several_turns_link_up() -> None:
    async with running(think=True) as wire:
        messages: list[dict[str, Any]] = [USER]
        seen: list[int] = []
        for _ in range(3):
            _, answer = await wire.chat(messages=messages, tools=[ADD], **TRAINING)
            assert answer["prompt_token_ids"][: len(seen)] == seen
            seen = answer["prompt_token_ids"] + answer["choices"][0]["token_ids"]
            message = answer["choices"][0]["message"]
            messages = [*messages, message, {"role": "tool", "tool_call_id": "1", "content": "3"}]
        assert "tool_calls" not in message


async def test_nothing_of_tokens_is_in_an_answer_that_was_not_asked_for_them() -> None:
    async with running() as wire:
        _, answer = await wire.chat()
    assert "prompt_token_ids" not in answer
    assert "token_ids" not in answer["choices"][0]
    assert answer["choices"][0]["logprobs"] is None
