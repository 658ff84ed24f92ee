"""Answers of the completions route."""

from __future__ import annotations

import json

from tests.mock_engine.wire import running


async def test_completions_have_both_kinds_of_ids_on_the_choice() -> None:
    async with running(policy="echo") as wire:
        _, answer = await wire.post(
            "/v1/completions", prompt="abcd", logprobs=1, return_token_ids=True, echo=True
        )
    choice = answer["choices"][0]
    assert choice["text"] == "abcdabcd"
    assert len(choice["prompt_token_ids"]) == 2
    assert len(choice["token_ids"]) == len(choice["logprobs"]["token_logprobs"]) == 3
    assert choice["logprobs"]["text_offset"] == [0, 2, 4]


async def test_a_stream_has_the_same_text_and_ids_as_the_whole_answer() -> None:
    body = {"prompt": "abcd", "return_token_ids": True, "seed": 1, "model": "mock"}
    async with running(policy="echo", chunk_tokens=1) as wire:
        _, whole = await wire.post("/v1/completions", **body)
        url = f"{wire.engine.base_url}/completions"
        stream = body | {"stream": True, "stream_options": {"include_usage": True}}
        async with wire.session.post(url, json=stream) as answer:
            lines = [line.removeprefix(b"data: ").strip() async for line in answer.content if line.strip()]
    assert lines.pop() == b"[DONE]"
    *chunks, last = (json.loads(line) for line in lines)
    assert len(chunks) > 2
    choices = [chunk["choices"][0] for chunk in chunks]
    assert "".join(choice["text"] for choice in choices) == whole["choices"][0]["text"]
    assert [i for choice in choices for i in choice["token_ids"]] == whole["choices"][0]["token_ids"]
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert (last["choices"], last["usage"]) == ([], whole["usage"])
