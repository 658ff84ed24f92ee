import asyncio
from typing import Any

import pytest

from nemo_gym.mock_engine import EngineOptions, MockEngine, ModelReply, ScriptPolicy
from nemo_gym.mock_engine.app import Slots
from nemo_gym.mock_engine.policies import Scene
from tests.mock_engine.wire import running


async def test_the_model_is_listed_with_its_context_and_any_other_is_unknown() -> None:
    async with running(model="policy", max_model_len=512) as wire:
        _, models = await wire.get("/v1/models")
        status, error = await wire.chat(model="other")
        known, _ = await wire.chat(model="policy")
    assert (models["data"][0]["id"], models["data"][0]["max_model_len"]) == ("policy", 512)
    assert (status, known) == (404, 200)
    assert error["error"]["message"] == "The model `other` does not exist."
    assert error["error"]["type"] == "NotFoundError"


async def test_errors_have_vllm_s_envelope_or_its_older_flat_one() -> None:
    async with running() as nested, running(flat_errors=True) as flat:
        _, error = await nested.chat(tools=[])
        _, older = await flat.chat(tools=[])
    assert (error["error"]["type"], error["error"]["code"]) == ("BadRequestError", 400)
    assert older == {"object": "error", **error["error"]}


async def test_a_key_guards_the_api_and_nothing_else() -> None:
    async with running(api_key="secret") as wire:
        status, error = await wire.chat()
        healthy, _ = await wire.get("/health")
        headers = {"authorization": "Bearer secret"}
        async with wire.session.get(f"{wire.engine.base_url}/models", headers=headers) as answer:
            allowed = answer.status
    assert (status, error, healthy, allowed) == (401, {"error": "Unauthorized"}, 200, 200)


async def test_wrong_routes_methods_and_bodies_have_different_errors() -> None:
    async with running() as wire:
        assert (await wire.post("/v1/embeddings"))[0] == 404
        assert (await wire.get("/v1/chat/completions"))[0] == 405
        url = f"{wire.engine.base_url}/chat/completions"
        for body, message in ((b"{", "json_invalid"), (b"[]", "must be a JSON object")):
            async with wire.session.post(url, data=body) as answer:
                assert answer.status == 400
                assert message in (await answer.json())["error"]["message"]


async def test_a_policy_that_has_no_reply_is_an_error_with_its_reason() -> None:
    async with running(ScriptPolicy((Scene((ModelReply("x"),), match="nowhere"),))) as wire:
        status, error = await wire.chat()
    assert status == 400
    assert "no scene" in error["error"]["message"]


async def test_the_app_serves_in_memory_without_a_socket() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b'{"messages":[{"role":"user","content":"Hi"}]}'}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: Any = {"type": "http", "path": "/v1/chat/completions", "method": "POST", "headers": []}
    await MockEngine(EngineOptions(policy="echo")).app(scope, receive, send)
    assert sent[0]["status"] == 200
    assert b'"content":"Hi"' in sent[1]["body"]


# --- Admission --------------------------------------------------------------------------------------------------------


async def test_an_engine_works_at_so_many_at_once_lets_some_wait_and_refuses_the_rest() -> None:
    async with running(latency_s=0.2, max_num_seqs=2, max_waiting=1) as wire:
        answers = await asyncio.gather(*(wire.chat() for _ in range(4)))
        assert sorted(status for status, _ in answers) == [200, 200, 200, 429]
        assert (await wire.chat())[0] == 200


async def test_a_cancelled_request_leaves_the_queue() -> None:
    slots = Slots(working=1, waiting=1)
    await slots.acquire()
    assert (slots.must_wait, slots.are_full) == (True, False)
    waiting = asyncio.create_task(slots.acquire())
    await asyncio.sleep(0)
    assert slots.are_full
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not slots.are_full
    slots.release()
    assert not slots.must_wait


async def test_without_limits_every_request_runs() -> None:
    slots = Slots(working=None, waiting=None)
    for _ in range(100):
        await slots.acquire()
    assert not slots.must_wait
    assert not slots.are_full


# --- Tokens of texts --------------------------------------------------------------------------------------------------


async def test_tokens_can_be_counted_and_turned_back_into_text() -> None:
    async with running() as wire:
        _, counted = await wire.post("/tokenize", prompt="ab cd", return_token_strs=True)
        _, text = await wire.post("/detokenize", tokens=counted["tokens"])
        status, _ = await wire.post("/detokenize", tokens=[10**9])
    assert (counted["count"], counted["token_strs"]) == (3, ["ab", " c", "d"])
    assert text == {"prompt": "ab cd"}
    assert status == 400
