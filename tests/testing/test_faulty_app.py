"""The app around a server's handlers applies the faults of its plan."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from nemo_gym.failures import TransportError
from nemo_gym.transport import Reply
from tests.testing.faulty import faulty


@pytest.mark.parametrize("over_http", [True, False])
@pytest.mark.parametrize(("fault", "effects"), [("reset_before", 0), ("reset_after", 2)])
async def test_a_reset_comes_before_or_after_the_work(fault: str, effects: int, over_http: bool) -> None:
    async with faulty({"do": fault, "route": "add"}, over_http=over_http) as client:
        with pytest.raises(TransportError) as caught:
            await client.post("/add", amount=2)
        saw = await client.saw()
    assert caught.value.failure.code == "disconnected"
    assert (saw["effects"], saw["received"]["add"], saw["faults"]) == (effects, 1, {fault: 1})


@pytest.mark.parametrize(("fault", "effects"), [("hang", 0), ("hang_after", 2)])
async def test_a_caller_that_waits_in_vain_is_seen_leaving(fault: str, effects: int) -> None:
    async with faulty({"do": fault, "route": "add"}) as client:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.post("/add", amount=2), 0.1)
        while (saw := await client.saw())["in_flight"]:
            pass
    assert (saw["effects"], saw["disconnects"]) == (effects, 1)


@pytest.mark.parametrize(
    ("fault", "status"),
    [("http_429", 429), ("http_500", 500), ("http_502", 502), ("http_503", 503), ("http_504", 504)],
)
async def test_a_refused_call_is_not_executed(fault: str, status: int) -> None:
    async with faulty({"do": fault, "route": "add", "times": 1, "retry_after_s": 1.5}) as client:
        refused = await client.post("/add", amount=2)
        answered = await client.post("/add", amount=2)
        saw = await client.saw()
    assert (refused.status, refused.headers["retry-after"], answered.status) == (status, "1.5", 200)
    assert saw["effects"] == 2


@pytest.mark.parametrize(
    ("fault", "is_so"),
    [
        ("broken_json", lambda reply: not _is_json(reply)),
        ("invalid_utf8", lambda reply: not _is_json(reply)),
        ("a_list", lambda reply: reply.json() == [{"count": 2}]),
        ("reward_null", lambda reply: reply.json() == {"count": 2, "reward": None}),
        ("drip", lambda reply: reply.json() == {"count": 2}),
    ],
)
async def test_answers_are_garbled_after_the_work(fault: str, is_so: Callable[[Reply], bool]) -> None:
    async with faulty({"do": fault, "route": "add", "over_s": 0.1}) as client:
        assert is_so(await client.post("/add", amount=2))
        assert (await client.saw())["effects"] == 2


def _is_json(reply: Reply) -> bool:
    try:
        reply.json()
    except orjson.JSONDecodeError:
        return False
    return True


async def test_rules_choose_by_route_and_body_and_delays_are_drawn() -> None:
    rules: list[dict[str, Any]] = [
        {"do": "http_500", "match": '"amount":7'},
        {"delay_s": 0.05, "route": ["add"]},
    ]
    async with faulty(*rules) as client:
        assert (await client.post("/add", amount=7)).status == 500
        started = asyncio.get_running_loop().time()
        assert (await client.post("/add", amount=1)).status == 200
        assert asyncio.get_running_loop().time() - started >= 0.05
        assert (await client.saw())["faults"] == {"http_500": 1, "delay": 1}
