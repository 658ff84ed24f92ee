"""A generation that a pause of the engine aborts is the one that it would have been."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from nemo_gym.engines.pausing import EnginePause, PauseMode
from nemo_gym.engines.policy import PolicyUpdate
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.records import CallRecord
from nemo_gym.tokens.segments import build_segments
from nemo_gym.transport.context import RequestContext, current_context
from nemo_gym.transport.pools import process_transport
from responses_api_models.vllm_model.app import VLLMModel
from tests.vllm.conftest import MODEL

TOKENS = 1200
ASKED: dict[str, Any] = {
    "input": "Count.",
    "temperature": 0,
    "max_output_tokens": TOKENS,
    # The random model samples no special token: an engine leaves them out of texts.
    "metadata": {"extra_body": '{"ignore_eos": true, "logit_bias": {"0": -100, "1": -100, "2": -100}}'},
}


async def respond(server: VLLMModel, session: str) -> dict[str, Any]:
    current_context.set(RequestContext(session, None))
    return dict(orjson.loads(orjson.dumps(await server.respond(ASKED))))


def record_of(response: dict[str, Any]) -> CallRecord:
    (record,) = read_calls({"response": response})
    assert record.masked is None
    return record


def read_texts(response: dict[str, Any]) -> list[str]:
    return [part["text"] for item in response["output"] for part in item.get("content") or ()]


@pytest.fixture
async def transport() -> AsyncIterator[None]:
    """The connections of this process, which are closed in the event loop that has opened them."""
    yield
    await process_transport().close()


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("exact_prompts", [True, False])
async def test_a_greedy_generation_aborted_by_pauses_is_equal(vllm_url: str, exact_prompts: bool) -> None:
    server = VLLMModel.standalone(
        base_url=vllm_url,
        api_key="none",
        model=MODEL,
        return_token_id_information=True,
        exact_prompts=exact_prompts,
        reasoning_opened_by_template=False,
    )
    assert isinstance(server, VLLMModel)
    whole = await respond(server, "whole")
    for mode, is_aborted in ((PauseMode.ABORT, True), (PauseMode.KEEP, False)):
        await server.update_policy(PolicyUpdate(version=0))
        call = asyncio.create_task(respond(server, f"paused by {mode}"))
        version = 0
        while version < 3:
            await asyncio.sleep(0.3)
            await server._pausing.pause(EnginePause(mode=mode))
            await asyncio.sleep(0.1)
            assert not call.done(), "the generation is too short for its pauses"
            version += 1
            await server.update_policy(PolicyUpdate(version=version))
            await server._pausing.resume(EnginePause())
        response = await call
        record, expected = record_of(response), record_of(whole)
        assert record.tokens is not None
        assert expected.tokens is not None
        if is_aborted:
            assert [version for _, version in record.versions] == [0, 1, 2, 3]
            assert [start for start, _ in record.versions] == sorted({start for start, _ in record.versions})
        else:
            assert not record.versions
        assert (record.policy_version, record.policy_version_end) == (0, 3)
        assert record.tokens.generated == expected.tokens.generated
        assert len(record.tokens.generated) == TOKENS
        assert read_texts(response) == read_texts(whole)
        assert record.tokens.prompt == expected.tokens.prompt
        assert record.tokens.logprobs == pytest.approx(expected.tokens.logprobs, abs=1e-3)
        ours, theirs = build_segments([record]), build_segments([expected])
        assert [each.loss_mask for each in ours] == [each.loss_mask for each in theirs]
