"""Answers of the responses route."""

from __future__ import annotations

from tests.mock_engine.wire import THOUGHTFUL, running


async def test_responses_have_items_and_raw_tokens_when_asked_for() -> None:
    async with running(THOUGHTFUL) as wire:
        tool = {"type": "function", "name": "add", "parameters": {"type": "object"}}
        _, answer = await wire.post(
            "/v1/responses", input="Add.", tools=[tool], enable_response_messages=True
        )
        _, cut = await wire.post("/v1/responses", input="Add.", max_output_tokens=4)
        _, clamped = await wire.post("/v1/responses", input="Add.", max_output_tokens=10**9)
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message", "function_call"]
    assert len(answer["output_messages"][0]["tokens"]) == answer["usage"]["output_tokens"]
    assert len(answer["input_messages"][0]["tokens"]) == answer["usage"]["input_tokens"]
    assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert clamped["status"] == "completed"
