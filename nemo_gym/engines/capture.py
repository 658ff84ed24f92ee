"""The layer of a model server that writes the calls of rollouts into a `CaptureStore`.

A call belongs to a rollout if its path or its session header names one. The end of the answer is sent after the
exchange was written, so a client that has its answer finds it in the store. A failure to write is logged, and the
answer is sent all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nemo_gym import clock
from nemo_gym.engines.model_calls import (
    CaptureStore,
    capture_folder,
    observability_enabled_from_config,
)
from nemo_gym.failures import GymError
from nemo_gym.json_objects import object_in
from nemo_gym.serving.app import GymApp
from nemo_gym.transport.context import SESSION_HEADER, current_context
from nemo_gym.transport.request_body import WholeBody

log = logging.getLogger(__name__)

DIALECTS: Mapping[str, str] = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
}
_SESSION = SESSION_HEADER.encode()
_EXECUTION = "nemo_gym_model_execution"


def start_model_execution(request: Request, *, upstream_attempted: bool) -> dict[str, Any]:
    """Return a mapping in which a model server notes where its answer comes from.

    Its keys are `response_source` (`upstream` or `local`), `upstream_status_code` and `local_response_reason`. They
    become fields of the call's record.
    """
    execution: dict[str, Any] = {
        "upstream_attempted": upstream_attempted,
        "response_source": None,
        "upstream_status_code": None,
        "local_response_reason": None,
    }
    setattr(request.state, _EXECUTION, execution)
    return execution


def install_model_call_capture(app: GymApp, global_config_dict: Any, model_server_name: str | None) -> None:
    """Add the capture to the app of a model server, if the global configuration enables it."""
    if not isinstance(global_config_dict, Mapping) or not observability_enabled_from_config(
        global_config_dict
    ):
        return
    store = CaptureStore(capture_folder(global_config_dict))
    app.layers.insert(0, ModelCallCapture(store, model_server_name))


class ModelCallCapture:
    """A layer of the app (`GymApp.layers`)."""

    def __init__(self, store: CaptureStore, model_server_name: str | None) -> None:
        self._store = store
        self._model = (
            {"type": "responses_api_models", "name": model_server_name} if model_server_name else None
        )

    async def __call__(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        context = current_context.get()
        is_of_rollout = context is not None and any(name == _SESSION for name, _ in scope["headers"])
        if scope["path"] not in DIALECTS or not is_of_rollout or not isinstance(receive, WholeBody):
            await handler(scope, receive, send)
            return
        assert context is not None
        exchange = _Exchange(scope, receive.body, self._model)
        answer = _HeldEnd(send)
        try:
            await handler(scope, receive, answer)
        except BaseException as error:
            await self._record(context.session, exchange.failed(error))
            raise
        await self._record(context.session, exchange.answered(answer))
        await answer.release()

    async def _record(self, rollout: str, exchange: Mapping[str, Any]) -> None:
        try:
            await asyncio.to_thread(self._store.record, rollout, exchange)
        except (OSError, TypeError, GymError):
            log.exception("a model call of rollout %s could not be written to %s", rollout, self._store.root)


class _HeldEnd:
    """An ASGI `send` that holds the last message of the response back."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._last: Message | None = None
        self.status = 0
        self.body = b""
        self.first_byte_at: float | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")
            self.first_byte_at = self.first_byte_at or clock.monotonic()
            if not message.get("more_body", False):
                self._last = message
                return
        await self._send(message)

    async def release(self) -> None:
        if self._last is not None:
            await self._send(self._last)


class _Exchange:
    """A call that is being answered."""

    def __init__(self, scope: Scope, body: bytes, model: Mapping[str, str] | None) -> None:
        self._scope = scope
        self._started = clock.monotonic()
        self._fields: dict[str, Any] = {
            "model_call_id": f"call_{clock.hex_id()}",
            "model_ref": model,
            "dialect": DIALECTS[scope["path"]],
            "started_at": clock.wall_clock(),
            **_parsed("request", body),
        }

    def answered(self, answer: _HeldEnd) -> dict[str, Any]:
        category = None if answer.status < 400 else f"http_{answer.status}"
        first = answer.first_byte_at
        return {
            **self._complete(),
            **_parsed("response", answer.body),
            "status_code": answer.status,
            "error_category": category,
            "latency_ttft_ms": None if first is None else (first - self._started) * 1000,
        }

    def failed(self, error: BaseException) -> dict[str, Any]:
        failure = error.failure if isinstance(error, GymError) else None
        return {**self._complete(), "error_category": failure.code if failure else type(error).__name__}

    def _complete(self) -> dict[str, Any]:
        return {
            **self._fields,
            **self._scope.get("state", {}).get(_EXECUTION, {}),
            "completed_at": clock.wall_clock(),
            "latency_ms": (clock.monotonic() - self._started) * 1000,
        }


def _parsed(name: str, body: bytes) -> dict[str, Any]:
    """Return the body as a JSON object under `name`, or else as text under `<name>_raw`."""
    value = object_in(body)
    return {name: value} if value is not None else {f"{name}_raw": body.decode(errors="replace")}
