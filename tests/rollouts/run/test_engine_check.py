"""Engines are checked before servers start."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.mock_engine.in_memory import mount
from nemo_gym.rollouts.run.engine_check import check_engines
from nemo_gym.transport import InMemoryTransport


def server(model: str = "mock", url: str | list[str] = "http://engine/v1", **keys: Any) -> dict[str, Any]:
    block = {"entrypoint": "app.py", "base_url": url, "api_key": "none", "model": model, **keys}
    return {"responses_api_models": {"vllm_model": block}}


@pytest.fixture
def transport() -> InMemoryTransport:
    transport = InMemoryTransport()
    mount(transport, MockEngine(EngineOptions(model="mock")).app, "http://engine")
    return transport


async def test_a_healthy_engine_passes(transport: InMemoryTransport) -> None:
    await check_engines({"policy": server(), "judge": server()}, transport)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (server(url="http://engine"), "Write http://engine/v1."),
        (server(model="mok"), "no model named `mok`"),
        (server(url=["http://engine/v1", "http://nowhere/v1"]), "http://nowhere/v1"),
    ],
)
async def test_a_mistake_of_the_command_line_is_found(
    transport: InMemoryTransport, wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigErrors) as caught:
        await check_engines({"policy": wrong, "judge": wrong}, transport)
    assert len(caught.value.problems) == 1
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "other",
    [
        {"responses_api_models": {"scripted_model": {"entrypoint": "app.py"}}},
        {"resources_servers": {"vllm_model": {"base_url": "http://nowhere/v1"}}},
        server(url="http://nowhere/v1", endpoint_file="url.txt"),
    ],
)
async def test_other_servers_are_left_alone(transport: InMemoryTransport, other: dict[str, Any]) -> None:
    await check_engines({"other": other}, transport)


async def test_an_engine_that_is_gone_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigErrors, match="refuses the connection"):
        await check_engines({"policy": server(url="http://127.0.0.1:9/v1")})
    assert caplog.records == []
