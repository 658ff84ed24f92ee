"""A response made of JSON bytes."""

from __future__ import annotations

from typing import Any

from starlette.background import BackgroundTask

from nemo_gym.serving.json_response import JsonResponse


async def test_body_status_and_headers_are_sent_and_then_the_background_task_runs() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    response = JsonResponse(b'{"a":1}', 201, {"x-name": "Müller"})
    response.background = BackgroundTask(sent.append, "background")
    await response({"type": "http"}, send, send)  # type: ignore[arg-type]
    start, body, last = sent
    assert start["status"] == 201
    assert start["headers"] == [
        (b"content-type", b"application/json"),
        (b"x-name", b"M\xfcller"),
        (b"content-length", b"7"),
    ]
    assert (body["body"], last) == (b'{"a":1}', "background")


def test_headers_can_be_changed_as_those_of_other_responses() -> None:
    response = JsonResponse(b"{}")
    response.set_cookie("seen", "yes")
    assert "seen=yes" in response.headers["set-cookie"]
