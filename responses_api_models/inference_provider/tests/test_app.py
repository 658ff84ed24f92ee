"""inference_provider: presets of providers, and requests that hosted APIs accept."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.transport import Transport
from responses_api_models.inference_provider.app import InferenceProvider, InferenceProviderConfig
from responses_api_models.inference_provider.providers import PROVIDERS
from tests.engines.upstreams import Mounted, RecordingUpstream


def config_of(**keys: Any) -> InferenceProviderConfig:
    given = {"host": "", "port": 0, "entrypoint": "app.py", "name": "policy_model", "model": "m"}
    return InferenceProviderConfig.model_validate({**given, **keys})


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_has_its_url_and_its_key_s_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROVIDERS[name].key_variable, "secret")
    config = config_of(provider=name)
    assert (config.base_url, config.api_key) == (PROVIDERS[name].base_url, "secret")
    assert config_of(provider=name, api_key="own", base_url="http://own/v1").api_key == "own"


def test_an_unknown_provider_or_a_missing_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOGETHER_API_KEY", raising=False)
    with pytest.raises(ValidationError, match="TOGETHER_API_KEY"):
        config_of(provider="together")
    with pytest.raises(ValidationError, match="there is no provider 'nowhere'"):
        config_of(provider="nowhere", api_key="key")


def test_concurrent_requests_are_limited() -> None:
    config = config_of(base_url="http://own/v1", api_key="key", num_concurrent_requests=3)
    assert config.max_concurrent_requests == 3


async def test_a_request_has_no_field_that_hosted_apis_refuse() -> None:
    app: Any = MockEngine(EngineOptions()).app
    upstream = RecordingUpstream(app)

    class Server(InferenceProvider):
        def new_transport(self) -> Transport:
            return Mounted(upstream).transport

    server = Server.standalone(base_url=Mounted.URL, api_key="key", model="mock")
    assert isinstance(server, InferenceProvider)
    history = [
        {"role": "user", "content": "x"},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "so"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "y"}]},
        {"role": "user", "content": "z"},
    ]
    await server.respond({"input": history, "max_output_tokens": 50, "metadata": {"id": "1"}})
    body = upstream.last.body
    assert body["max_tokens"] == 50
    assert "metadata" not in body
    assert body["messages"][1] == {"role": "assistant", "content": "y"}
