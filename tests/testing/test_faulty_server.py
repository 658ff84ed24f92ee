"""The faulty resources server follows its plan and counts its effects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from nemo_gym.failures import ConfigError, TransportError
from nemo_gym.testing.faulty_server import FaultyServer
from nemo_gym.testing.serving import serving
from nemo_gym.transport import Call, HttpTransport, InMemoryTransport, Reply, Transport

SESSION = {"x-ng-session": "s", "content-type": "application/json"}


class Client:
    def __init__(self, url: str, transport: Transport) -> None:
        self._url = url
        self._transport = transport

    async def post(self, path: str, **body: Any) -> Reply:
        return await self._transport.send(self._url, Call("POST", path, orjson.dumps(body), dict(SESSION)))

    async def saw(self) -> dict[str, Any]:
        reply = await self._transport.send(self._url, Call("GET", "/_ng/saw"))
        seen: dict[str, Any] = reply.json()
        return seen


@asynccontextmanager
async def faulty(*rules: dict[str, Any], over_http: bool = True) -> AsyncIterator[Client]:
    """A client of a server with an open session."""
    server = FaultyServer.standalone(name="env", faults=list(rules))
    async with serving(server) as url:
        transport: Transport = (
            HttpTransport() if over_http else InMemoryTransport({url: server.setup_webserver()})
        )
        client = Client(url, transport)
        await client.post("/seed_session")
        yield client
        await transport.close()


async def test_without_faults_it_counts() -> None:
    async with faulty() as client:
        for _ in range(3):
            reply = await client.post("/add", amount=2)
        assert reply.json() == {"count": 6}
        saw = await client.saw()
    assert (saw["effects"], saw["executed"]["add"], saw["sessions"]["open"]) == (6, 3, 1)


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


def test_a_plan_with_an_unknown_fault_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="'explode' is not a fault"):
        FaultyServer.standalone(faults=[{"do": "explode"}]).setup_webserver()
