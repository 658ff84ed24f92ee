"""An engine whose answers depend on the prompt and on how often it was asked it, and which keeps both.

`/v1/mark` begins a new part of the log, such as an episode.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any, NamedTuple


class Answer(NamedTuple):
    text: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] | None = None
    finish: str | None = None
    status: int = 200


Choose = Callable[[list[str], int], Answer]
"""From the parts of a prompt, and the number of times that it was asked before, to the answer."""


def flatten(messages: list[dict[str, Any]]) -> list[str]:
    """Return the texts of a prompt, with the data of images, without the ids of calls."""
    parts = []
    for message in messages:
        content = message.get("content") or ""
        pieces: list[dict[str, Any]] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else content
        )
        said = "".join(
            piece["image_url"]["url"] if piece["type"] == "image_url" else piece["text"] for piece in pieces
        )
        for call in message.get("tool_calls") or []:
            function = call["function"]
            said += f"<{function['name']} {json.dumps(json.loads(function['arguments']), sort_keys=True)}>"
        parts.append(f"{message['role']}: {said}")
    return parts


class ScriptedEngine:
    """`with ScriptedEngine(choose) as engine: engine.base_url`."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._asked: Counter[str] = Counter()
        self._lock = Lock()
        self.log: list[list[str]] = []
        """Each prompt that was answered, and at its end the answer."""
        self.marks: list[int] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.engine = self  # type: ignore[attr-defined]
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedEngine:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def split_by_marks(self) -> list[list[list[str]]]:
        """Return the log in the parts that marks began."""
        ends = [*self.marks, len(self.log)][1:]
        return [self.log[start:end] for start, end in zip(self.marks, ends, strict=True)]

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        prompt = flatten(body["messages"])
        with self._lock:
            asked = json.dumps(prompt)
            chosen = self._choose(prompt, self._asked[asked])
            self._asked[asked] += 1
            if chosen.status == 200:
                self.log.append([*prompt, f"-> {chosen.text} {chosen.tool} {chosen.arguments}"])
        if chosen.status != 200:
            return chosen.status, {
                "error": {"message": chosen.text, "type": "invalid", "code": chosen.status}
            }
        message: dict[str, Any] = {"role": "assistant", "content": chosen.text}
        if chosen.tool is not None:
            function = {"name": chosen.tool, "arguments": json.dumps(chosen.arguments)}
            message["tool_calls"] = [
                {"id": f"call_{len(self.log)}", "type": "function", "function": function}
            ]
        finish = chosen.finish or ("tool_calls" if chosen.tool else "stop")
        return 200, {
            "id": "chat",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._send(200, {"object": "list", "data": [{"id": "mock", "object": "model"}]})

    def do_POST(self) -> None:
        engine: ScriptedEngine = self.server.engine  # type: ignore[attr-defined]
        sent = self.rfile.read(int(self.headers["content-length"]))
        if self.path.endswith("/mark"):
            engine.marks.append(len(engine.log))
            self._send(200, {})
        else:
            body = json.loads(sent)
            status, answer = engine.answer(body)
            is_stream = body.get("stream") and status == 200
            self._send(status, answer) if not is_stream else self._stream(answer)

    def _stream(self, answer: dict[str, Any]) -> None:
        """Send an answer as two chunks, of which the second one is its end."""
        choice, common = answer["choices"][0], {**answer, "object": "chat.completion.chunk"}
        calls = choice["message"].get("tool_calls") or []
        numbered = [{**call, "index": index} for index, call in enumerate(calls)]
        first = {**choice["message"], **({"tool_calls": numbered} if calls else {})}
        chunks = [
            {**common, "choices": [{"index": 0, "delta": first, "finish_reason": None}], "usage": None},
            {**common, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
        ]
        events = [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]
        self._send_bytes(200, "text/event-stream", "".join([*events, "data: [DONE]\n\n"]).encode())

    def _send(self, status: int, body: dict[str, Any]) -> None:
        self._send_bytes(status, "application/json", json.dumps(body).encode())

    def _send_bytes(self, status: int, kind: str, data: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass
