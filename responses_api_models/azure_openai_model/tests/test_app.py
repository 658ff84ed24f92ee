"""azure_openai_model: the key in Azure's header, the version in the query."""

from __future__ import annotations

from typing import Any

import pytest

from nemo_gym.failures import EngineError
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.transport import Transport
from responses_api_models.azure_openai_model.app import AzureOpenAIModel
from tests.engines.upstreams import App, Canned, Mounted, RecordingUpstream

VERSION = {"api-version": "2025-04-01-preview"}


def azure_over(app: App, **options: Any) -> AzureOpenAIModel:
    class Server(AzureOpenAIModel):
        def new_transport(self) -> Transport:
            return Mounted(app).transport

    given = {
        "openai_base_url": Mounted.URL,
        "openai_api_key": "azure-key",
        "openai_model": "mock",
        "retry_s": 0,
    }
    server = Server.standalone(**{**given, "default_query": VERSION, **options})
    assert isinstance(server, AzureOpenAIModel)
    return server


async def test_key_and_version_go_with_every_request() -> None:
    app: Any = MockEngine(EngineOptions()).app
    upstream = RecordingUpstream(app)
    server = azure_over(upstream, openai_default_headers={"X-Team": "gym"})
    await server.respond({"input": "hello"})
    await server.complete({"messages": [{"role": "user", "content": "hello"}]})
    await server.preflight()
    assert [request.path for request in upstream.sent] == [
        "/v1/responses",
        "/v1/chat/completions",
        "/v1/models",
    ]
    for request in upstream.sent:
        assert request.headers["api-key"] == "azure-key"
        assert request.headers["x-team"] == "gym"
        assert "authorization" not in request.headers
        assert request.query == VERSION


async def test_preflight_lets_a_deployment_have_any_name() -> None:
    listing = {"object": "list", "data": [{"id": "gpt-4.1"}]}
    await azure_over(Canned().add(200, listing), openai_model="our-deployment").preflight()


async def test_preflight_reports_a_refused_key() -> None:
    body = {"error": {"code": "401", "message": "Access denied due to invalid subscription key azure-key."}}
    with pytest.raises(EngineError, match="Access denied") as raised:
        await azure_over(Canned().add(401, body)).preflight()
    assert raised.value.failure.code == "unauthorized"
    assert "azure-key" not in str(raised.value)
