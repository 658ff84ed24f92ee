"""A port in front of an engine that keeps the requests, to compare what two runners ask it.

A URL begins with the name of who asks, so that one port keeps them apart.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class EngineRecorder(ThreadingHTTPServer):
    """Passes requests on to `engine`, a URL that ends in `/v1`."""

    daemon_threads = True

    def __init__(self, engine: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.engine = engine
        self.requests: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)

    def build_url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}/v1"

    def list_prompts(self, name: str) -> list[list[Any]]:
        """Return the prompts of a name in order, as texts: ids of calls and forms of contents differ."""
        return [[*map(_simplify, each["messages"]), _list_tools(each)] for each in self.requests[name]]


class _Handler(BaseHTTPRequestHandler):
    server: EngineRecorder

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests[self.path.split("/")[1]].append(json.loads(body))
        self._pass_on(body)

    def do_GET(self) -> None:
        self._pass_on(None)

    def _pass_on(self, body: bytes | None) -> None:
        path = self.path.partition("/v1")[2]
        request = urllib.request.Request(self.server.engine + path, body)
        request.add_header("content-type", "application/json")
        try:
            answer = urllib.request.urlopen(request)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            content = answer.read()
        self.send_response(answer.status)
        self.send_header("content-type", answer.headers["content-type"])
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def _simplify(message: dict[str, Any]) -> list[Any]:
    content = message.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return [message["role"], text, *([call["name"], json.loads(call["arguments"])] for call in calls)]


def _list_tools(request: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in request.get("tools") or ()]


@contextmanager
def recording(engine: str) -> Iterator[EngineRecorder]:
    """Serve a recorder in a thread."""
    recorder = EngineRecorder(engine)
    thread = Thread(target=recorder.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield recorder
    finally:
        recorder.shutdown()
        thread.join()
        recorder.server_close()
