"""The stub's pauses, in the dialects of vLLM and sglang."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from nemo_gym.mock_engine import ModelReply, ScriptPolicy
from nemo_gym.mock_engine.pausing import DEVELOPMENT_MODE
from nemo_gym.mock_engine.policies import Scene
from tests.mock_engine.wire import Wire, running
from tests.waiting import until

LONG = ScriptPolicy((Scene((ModelReply("word " * 2000),)),))
SLOW: dict[str, Any] = {"tokens_per_s": 1000.0}  # five seconds
PAUSES = {
    "vllm": ("/pause?mode=abort", {}, "/resume"),
    "sglang": ("/pause_generation", {"mode": "abort"}, "/continue_generation"),
}


@pytest.fixture(autouse=True)
def development(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DEVELOPMENT_MODE, "1")


def ask(wire: Wire, **payload: Any) -> asyncio.Task[tuple[int, Any]]:
    return asyncio.create_task(wire.chat(return_token_ids=True, logprobs=True, top_logprobs=0, **payload))


@pytest.mark.parametrize("dialect", PAUSES)
async def test_a_pause_answers_with_the_tokens_so_far_and_holds_new_requests(dialect: str) -> None:
    path, body, resume = PAUSES[dialect]
    async with running(LONG, **SLOW) as wire:
        call = ask(wire)
        await wire.in_flight(1)
        await asyncio.sleep(0.1)
        assert (await wire.post(path, **body))[0] == 200
        _, answer = await call
        (choice,) = answer["choices"]
        assert choice["finish_reason"] == "abort"
        assert 0 < len(choice["token_ids"]) == answer["usage"]["completion_tokens"] < 4000
        assert len(choice["logprobs"]["content"]) == len(choice["token_ids"])
        held = ask(wire, max_completion_tokens=1)
        await wire.in_flight(1)
        await asyncio.sleep(0.05)
        assert not held.done()
        if dialect == "vllm":
            assert await wire.get("/is_paused") == (200, {"is_paused": True})
        assert (await wire.post(resume))[0] == 200
        assert (await held)[1]["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("path", "body", "resume"),
    [
        ("/pause?mode=keep", {}, "/resume"),
        ("/pause_generation", {"mode": "in_place"}, "/continue_generation"),
    ],
)
async def test_kept_generations_stand_still_and_go_on(path: str, body: dict[str, Any], resume: str) -> None:
    async with running(LONG, tokens_per_s=20_000.0) as wire:
        call = ask(wire)
        await wire.in_flight(1)
        await asyncio.sleep(0.05)
        assert (await wire.post(path, **body))[0] == 200
        await asyncio.sleep(0.4)
        assert not call.done()
        await wire.post(resume)
        assert (await call)[1]["choices"][0]["finish_reason"] == "stop"


async def test_waiting_for_running_generations_answers_when_they_have_ended() -> None:
    async with running(LONG, tokens_per_s=20_000.0) as wire:
        call = ask(wire)
        await wire.in_flight(1)
        await wire.post("/pause?mode=wait")
        await until(call.done)
        assert call.result()[1]["choices"][0]["finish_reason"] == "stop"


async def test_requests_are_aborted_by_name_or_all() -> None:
    async with running(LONG, **SLOW) as wire:
        calls = {name: ask(wire, request_id=name) for name in ("a", "b", "c", "d")}
        await wire.in_flight(4)
        await asyncio.sleep(0.05)
        await wire.post("/abort_requests", request_ids=["a"])
        await wire.post("/abort_request", rid="b")
        await asyncio.gather(calls["a"], calls["b"])
        assert not calls["c"].done()
        await wire.post("/abort_requests")
        for call in calls.values():
            assert (await call)[1]["choices"][0]["finish_reason"] == "abort"


async def test_an_unknown_mode_is_refused_and_vllm_has_its_routes_in_development_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(LONG) as wire:
        assert (await wire.post("/pause?mode=later"))[0] == 400
        monkeypatch.delenv(DEVELOPMENT_MODE)
        for path in ("/pause", "/resume", "/abort_requests"):
            assert (await wire.post(path))[0] == 404


async def test_a_client_that_leaves_a_paused_engine_is_gone() -> None:
    async with running(LONG) as wire:
        await wire.post("/pause")
        call = ask(wire)
        await wire.in_flight(1)
        call.cancel()
        await wire.in_flight(0)
