"""An engine's app in memory, at the URLs of a real engine."""

from __future__ import annotations

from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.mock_engine.in_memory import mount
from nemo_gym.transport import Call, InMemoryTransport


async def test_the_api_is_below_v1_and_the_rest_is_at_the_root() -> None:
    transport = InMemoryTransport()
    base_url = mount(transport, MockEngine(EngineOptions(model="policy")).app, "http://engine-1")
    assert base_url == "http://engine-1/v1"
    models = (await transport.send(base_url, Call("GET", "/models"))).json()
    assert models["data"][0]["id"] == "policy"
    assert (await transport.send("http://engine-1", Call("GET", "/health"))).status == 200
    assert (await transport.send(base_url, Call("GET", "/health"))).status == 404
