"""OpenTelemetry: a trace for each rollout, with a span for each request of its session to any server.

The id of the attempt, which is its session, is the trace's id. The span of `/run` is the root, and its id follows from
the session, so that spans of all servers find their parent without another header. Tracing is on if the environment
variable `OTEL_EXPORTER_OTLP_ENDPOINT` or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set; OpenTelemetry is imported only
then.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym.rows.identity import find_indices
from nemo_gym.serving.own_routes import is_about_server
from nemo_gym.transport.context import current_context

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Span

    from nemo_gym.serving.app import Layer

log = logging.getLogger(__name__)

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
ROOT_PATH = "/run"
_PACKAGES = "opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_SPAN_BITS = (1 << 64) - 1
_FLUSH_MS = 2_000
_HEAD_BYTES = 200
"""Rows start with their indices."""


def build_tracing_layers(server: str) -> Sequence[Layer]:
    """Return the layer that traces the requests of a server, or nothing if tracing is off."""
    if not _is_on():
        return ()
    try:
        return (build_tracing_layer(server, _exporter()),)
    except ImportError as error:
        log.warning("no traces are sent: %s; pip install %s", error, _PACKAGES)
        return ()


@cache
def _exporter() -> SpanProcessor:
    """Return the processor that sends the spans of this process."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    return BatchSpanProcessor(OTLPSpanExporter())


async def flush_traces() -> None:
    """Send the spans of this process that are not sent yet, within two seconds."""
    if _is_on():
        with suppress(ImportError):
            await asyncio.to_thread(_exporter().force_flush, _FLUSH_MS)


def _is_on() -> bool:
    return any(os.environ.get(name) for name in ENDPOINT_VARIABLES)


def build_tracing_layer(server: str, processor: SpanProcessor) -> Layer:
    """Return a layer that gives the spans of a server's requests to `processor`."""
    from opentelemetry import trace

    start = _starter(server, processor)

    async def trace_request(handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if is_about_server(scope):
            await handler(scope, receive, send)
            return
        with trace.use_span(start(f"{scope['method']} {path}", path), end_on_exit=True) as span:
            _describe(span, path, receive)
            await handler(scope, receive, send)
            span.set_attribute("http.response.status_code", getattr(send, "status", 0))

    return trace_request


def _starter(server: str, processor: SpanProcessor) -> Callable[[str, str], Span]:
    """Return a function that starts the span with a name, for a request to a path."""
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class RolloutIds(RandomIdGenerator):
        """Makes the ids of a root span from the session."""

        is_root = False

        def generate_trace_id(self) -> int:
            return _compute_session_ids()[0]

        def generate_span_id(self) -> int:
            return _compute_session_ids()[1] if self.is_root else super().generate_span_id()

    ids = RolloutIds()
    provider = TracerProvider(resource=Resource.create({"service.name": server}), id_generator=ids)
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("nemo_gym")

    def start(name: str, path: str) -> Span:
        ids.is_root = path == ROOT_PATH
        parent = Context() if ids.is_root else _build_session_root()
        return tracer.start_span(name, parent, trace.SpanKind.SERVER)

    return start


def _describe(span: Span, path: str, receive: Any) -> None:
    span.set_attribute("url.path", path)
    if path == ROOT_PATH:
        for key, index in find_indices(getattr(receive, "body", b"")[:_HEAD_BYTES]).items():
            span.set_attribute(key, index)


def _compute_session_ids() -> tuple[int, int]:
    """Return the ids of the current session's trace and of its root span."""
    context = current_context.get()
    session = context.session if context is not None else ""
    if _TRACE_ID.fullmatch(session) is None:  # of a client with names of its own
        session = hashlib.blake2b(session.encode(), digest_size=16).hexdigest()
    trace_id = int(session, 16) or 1
    return trace_id, (trace_id ^ trace_id >> 64) & _SPAN_BITS or 1


def _build_session_root() -> Any:
    """Return the context whose current span is the root of the session's trace."""
    from opentelemetry import trace

    root = trace.SpanContext(*_compute_session_ids(), is_remote=True, trace_flags=trace.TraceFlags(1))
    return trace.set_span_in_context(trace.NonRecordingSpan(root))
