"""A small engine that notes calls, made of the standard library alone: a benchmark reads its notes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, TypeVar


class NotingEngine(ThreadingHTTPServer):
    """An engine whose subclass has the notes."""

    daemon_threads = True
    request_queue_size = 128

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class NotingHandler(BaseHTTPRequestHandler):
    """Answers every chat completion with `text`."""

    protocol_version = "HTTP/1.1"
    text: ClassVar[str]

    def note_call(self) -> bool:
        """Note a call. Return whether it is to be answered."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self._answer({"object": "list", "data": [{"id": "mock", "object": "model", "max_model_len": 65_536}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        if not self.note_call():
            self.close_connection = True
            return
        message = {"role": "assistant", "content": self.text}
        usage = {"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}
        self._answer({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "mock",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage,
        })  # fmt: skip

    def _answer(self, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


_EngineT = TypeVar("_EngineT", bound=NotingEngine)


@contextmanager
def serve(engine: type[_EngineT], handler: type[NotingHandler]) -> Iterator[_EngineT]:
    """Serve an engine on a free port of loopback while the block runs."""
    with engine(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
