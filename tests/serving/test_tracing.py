"""Traces of rollouts, kept by the in-memory exporter of OpenTelemetry's SDK."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from nemo_gym.serving import tracing
from nemo_gym.serving.tracing import ENDPOINT_VARIABLES, build_tracing_layer, build_tracing_layers
from nemo_gym.testing.environment import Turn, call, run_environment
from nemo_gym.transport.context import RequestContext, current_context
from resources_servers.example_single_tool_call.app import ExampleSingleToolCallResourcesServer

ROW = {
    "_ng_task_index": 7,
    "_ng_rollout_index": 3,
    "responses_create_params": {
        "input": [{"role": "user", "content": "Rome?"}],
        "tools": [
            {
                "type": "function",
                "name": "get_weather",
                "parameters": {
                    "type": "object",
                    "properties": {"city": {"type": "string"}},
                    "required": ["city"],
                },
                "strict": False,
            }
        ],
    },
}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The exporter that all servers of this process use, switched on."""
    sdk = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    monkeypatch.setenv(ENDPOINT_VARIABLES[0], "http://127.0.0.1:1")
    monkeypatch.setattr(tracing, "_exporter", lambda: sdk.SimpleSpanProcessor(exporter))
    return exporter


@pytest.mark.parametrize("over_http", [False, True])
def test_a_rollout_is_a_trace_with_a_span_for_each_request(exporter: Any, over_http: bool) -> None:
    turns: list[Turn] = [call("get_weather", city="Rome"), "Cloudy."]
    run_environment(ExampleSingleToolCallResourcesServer, [ROW, ROW], turns, over_http=over_http)
    traces: dict[int, list[Any]] = {}
    for span in exporter.get_finished_spans():
        traces.setdefault(span.context.trace_id, []).append(span)
    assert len(traces) == 2
    for spans in traces.values():
        assert Counter((span.resource.attributes["service.name"], span.name) for span in spans) == {
            ("agent", "POST /run"): 1,
            ("environment", "POST /seed_session"): 1,
            ("policy_model", "POST /v1/responses"): 2,
            ("environment", "POST /get_weather"): 1,
            ("environment", "POST /verify"): 1,
            ("environment", "POST /close_session"): 1,
        }
        (root,) = [span for span in spans if span.parent is None]
        assert (root.name, root.attributes["_ng_task_index"], root.attributes["_ng_rollout_index"]) == (
            "POST /run",
            7,
            3,
        )
        assert {span.parent.span_id for span in spans if span is not root} == {root.context.span_id}
        assert {span.attributes["http.response.status_code"] for span in spans} == {200}
        assert len({span.context.span_id for span in spans}) == len(spans)


@pytest.mark.parametrize("session", ["5d41402abc4b2a76b9719d911017c592", "a name of a client"])
async def test_the_session_is_the_id_of_the_trace_and_errors_are_recorded(
    exporter: Any, session: str
) -> None:
    (layer,) = build_tracing_layers("server")

    async def fail(*_: Any) -> None:
        raise ValueError("broken")

    scope = {"type": "http", "method": "POST", "path": "/tool"}
    before = current_context.set(RequestContext(session))
    with pytest.raises(ValueError, match="broken"):
        await layer(fail, scope, None, None)  # type: ignore[arg-type]
    current_context.reset(before)
    (span,) = exporter.get_finished_spans()
    if len(session) == 32:
        assert f"{span.context.trace_id:032x}" == session
    assert span.status.is_ok is False
    assert span.events[0].attributes["exception.message"] == "broken"


async def test_probes_are_not_traced(exporter: Any) -> None:
    async def answer(*_: Any) -> None: ...

    (layer,) = build_tracing_layers("server")
    for path in ("/", "/health", "/metrics", "/_ng/stats"):
        await layer(answer, {"type": "http", "method": "GET", "path": path}, None, None)  # type: ignore[arg-type]
    assert exporter.get_finished_spans() == ()


def test_tracing_is_off_and_not_imported_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ENDPOINT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert build_tracing_layers("server") == ()
    script = "import sys, nemo_gym.serving.base; sys.exit('opentelemetry.sdk' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_missing_package_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENDPOINT_VARIABLES[1], "http://127.0.0.1:1")
    monkeypatch.setattr(tracing, "_exporter", lambda: build_tracing_layer)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with caplog.at_level(logging.WARNING):
        assert build_tracing_layers("server") == ()
    assert "pip install opentelemetry-sdk" in caplog.text
