"""A run logs the engine that it is waiting for, and its recovery."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest

from nemo_gym.rollouts.run._outage_watch import log_outages
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.transport import Caller, Directory, InMemoryTransport
from responses_api_models.openai_model.app import OpenAIModel
from tests.waiting import until


async def test_an_engine_that_is_gone_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as held:  # bound and not listening: connections are refused
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
        gym = InProcessGym()
        gym.add(OpenAIModel, "policy_model", openai_base_url=url, openai_api_key="none", openai_model="mock")
        async with gym.running(over_http=True):
            caller = gym.client().caller()
            async with log_outages(caller, ["policy_model"]):
                calling = asyncio.create_task(gym.post("policy_model", "/v1/responses", {"input": "hi"}))
                await until(
                    lambda: any("`policy_model` is waiting" in message for message in caplog.messages)
                )
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
    (logged,) = [
        message for message in caplog.messages if "is waiting" in message and "policy_model" in message
    ]
    assert f"{url} refuses the connection" in logged


async def test_what_is_reached_again_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    outages = [[{"peer": "http://e", "cause": "http://e refuses"}]] * 3 + [[]] * 3

    async def app(scope: object, receive: object, send: Callable[[dict[str, object]], object]) -> None:
        body = orjson.dumps({"outages": outages.pop(0) if len(outages) > 1 else outages[0]})
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[misc]
        await send({"type": "http.response.body", "body": body})  # type: ignore[misc]

    caller = Caller(Directory({"model": ["http://m"]}), InMemoryTransport({"http://m": app}))
    told: dict[str, Mapping[str, str]] = {}
    async with log_outages(caller, ["model"], outages=told, every_s=0.005):
        await until(lambda: told.get("model") == {"http://e": "http://e refuses"})
        await until(lambda: told["model"] == {})
    assert caplog.messages == ["`model` is waiting: http://e refuses", "`model` reaches http://e again"]


async def test_servers_that_are_away_or_know_no_figures_are_no_problem(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def strange(scope: object, receive: object, send: Callable[[dict[str, object]], object]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[misc]
        await send({"type": "http.response.body", "body": b"[1"})  # type: ignore[misc]

    directory = Directory({"strange": ["http://s"], "away": ["http://a"]})
    async with log_outages(
        Caller(directory, InMemoryTransport({"http://s": strange})), ["strange", "away"], every_s=0.005
    ):
        await asyncio.sleep(0.05)
    assert not [message for message in caplog.messages if "is waiting:" in message]


def replicas_with(stats: dict[str, dict[str, Any]]) -> Caller:
    """A caller of a server whose replicas answer these counters, which a test may change."""

    def app_of(url: str) -> Any:
        async def app(scope: object, receive: object, send: Callable[[dict[str, object]], Any]) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": orjson.dumps(stats[url])})

        return app

    return Caller(Directory({"model": [*stats]}), InMemoryTransport({url: app_of(url) for url in stats}))


@pytest.mark.parametrize("count", [2, 9])
async def test_an_outage_of_one_replica_is_said_once(caplog: pytest.LogCaptureFixture, count: int) -> None:
    """Also while the others are asked, which reach everything."""
    stats: dict[str, dict[str, Any]] = {f"http://m{number}": {"outages": []} for number in range(count)}
    async with log_outages(replicas_with(stats), ["model"], every_s=0.002):
        stats["http://m1"] = {"outages": [{"peer": "http://e", "cause": "http://e refuses"}]}
        await until(lambda: caplog.messages)
        await asyncio.sleep(0.1)
        assert caplog.messages == ["`model` is waiting: http://e refuses"]
        stats["http://m1"] = {"outages": []}
        await until(lambda: len(caplog.messages) == 2)
    assert caplog.messages[1] == "`model` reaches http://e again"


async def test_calls_that_one_replica_rejected_are_not_rejected_anew_with_every_poll() -> None:
    stats: dict[str, dict[str, Any]] = {"http://m1": {"refusals": 0}, "http://m2": {"refusals": 5}}
    told: list[int] = []
    async with log_outages(replicas_with(stats), ["model"], every_s=0.002, on_refused=lambda: told.append(1)):
        await asyncio.sleep(0.1)
        assert told == []
        stats["http://m1"] = {"refusals": 1}
        await until(lambda: told)
        await asyncio.sleep(0.1)
    assert told == [1]
