"""Errors with vLLM's texts."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.mock_engine import ModelReply, ScriptPolicy, ToolCall
from nemo_gym.mock_engine.policies import Scene
from nemo_gym.mock_engine.refusals import Refusal
from tests.mock_engine.wire import ADD, running

CALLING = ScriptPolicy((Scene((ModelReply("I call.", "", (ToolCall("add", '{"a": 1}'),)),)),))


async def suffer(fault: str, **fields: Any) -> tuple[int, Any]:
    """The status and JSON of a chat answer that `fault` befell."""
    async with running(CALLING, faults=[{"do": fault}]) as wire:
        answer = await wire.chat(tools=[ADD], **fields)
        assert wire.engine.stats.faults == {fault: 1}
        return answer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (1, "However, you requested"),
        (2, "Please reduce the length of the input messages."),
        (3, "'max_tokens' or 'max_completion_tokens' is too large"),
        (4, "the model's context length is only"),
        (5, "cannot be greater than max_model_len=max_total_tokens=65536"),
        (6, "max_tokens must be at least 1, got -186."),
        (7, "but the prompt contains"),
    ],
)
async def test_context_errors_come_in_every_wording(text: int, words: str) -> None:
    status, error = await suffer(f"overflow_{text}", max_tokens=100)
    assert status == 400
    assert words in error["error"]["message"]


async def test_a_budget_error_has_true_sizes_so_that_a_smaller_budget_fits() -> None:
    async with running(faults=[{"do": "overflow_3", "nth": 1}]) as wire:
        _, error = await wire.chat(max_tokens=100)
        limit, prompt = (
            int(word) for word in error["error"]["message"].rstrip(").").split(" > ")[1].split(" - ")
        )
        status, answer = await wire.chat(max_tokens=limit - prompt)
    assert (status, answer["usage"]["prompt_tokens"]) == (200, prompt)


@pytest.mark.parametrize("text", range(1, 7))
async def test_lookalikes_are_bad_requests_that_say_nothing_of_the_context(text: int) -> None:
    status, error = await suffer(f"lookalike_{text}")
    assert status == 400
    assert "context" not in error["error"]["message"]


def test_an_error_has_the_type_of_its_status() -> None:
    error = Refusal("no such model", status=404, param="model").answer
    nested = {"message": "no such model", "type": "NotFoundError", "param": "model", "code": 404}
    assert error.to_wire() == {"error": nested}
    assert error.to_wire(is_flat=True) == {"object": "error", **nested}
