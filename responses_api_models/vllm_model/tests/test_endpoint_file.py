"""endpoint_file: the URL of an engine that moves between hosts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_gym.failures import EngineError
from nemo_gym.mock_engine import EngineOptions, MockEngine
from responses_api_models.vllm_model.app import VLLMModel
from responses_api_models.vllm_model.endpoint_file import EndpointFile

FIRST, SECOND = "http://first/v1", "http://second/v1"


class Watch:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def endpoint_of(path: Path, watch: Watch) -> EndpointFile:
    return EndpointFile(path, check_interval_s=10, stale_grace_s=60, monotonic=watch)


def publish(path: Path, url: str, moment: int) -> None:
    path.write_text(url + "\n", encoding="utf-8")
    os.utime(path, (moment, moment))


def test_the_file_is_read_again_after_the_interval(tmp_path: Path) -> None:
    path, watch = tmp_path / "url", Watch()
    publish(path, FIRST, 1)
    endpoint = endpoint_of(path, watch)
    assert endpoint.url() == FIRST
    publish(path, SECOND, 2)
    watch.seconds = 9
    assert endpoint.url() == FIRST
    watch.seconds = 10
    assert endpoint.url() == SECOND


@pytest.mark.parametrize("is_removed", [True, False])
def test_the_last_url_is_valid_for_the_grace_period(tmp_path: Path, is_removed: bool) -> None:
    path, watch = tmp_path / "url", Watch()
    publish(path, FIRST, 1)
    endpoint = endpoint_of(path, watch)
    endpoint.url()
    if is_removed:
        path.unlink()
    else:
        publish(path, "", 2)
    for watch.seconds in (10, 70):
        assert endpoint.url() == FIRST
    watch.seconds = 71
    with pytest.raises(EngineError, match="for 61 s"):
        endpoint.url()
    publish(path, SECOND, 3)
    watch.seconds = 81
    assert endpoint.url() == SECOND


def test_there_is_no_url_before_the_first(tmp_path: Path) -> None:
    assert endpoint_of(tmp_path / "url", Watch()).url() is None


async def test_a_model_server_follows_its_engine(tmp_path: Path) -> None:
    path = tmp_path / "url"
    async with MockEngine(EngineOptions(policy="echo")) as first, MockEngine(EngineOptions()) as second:
        publish(path, first.base_url, 1)
        server = VLLMModel.standalone(
            base_url="http://127.0.0.1:9/v1",
            api_key="key",
            model="mock",
            endpoint_file=str(path),
            endpoint_check_interval_s=0,
            endpoint_connection_retries=2,
        )
        assert isinstance(server, VLLMModel)
        await server.respond({"input": "x"})
        publish(path, second.base_url, 2)
        await server.respond({"input": "x"})
        assert first.stats.requests.total() == second.stats.requests.total() == 1
