"""Server-sent events as bytes."""

from __future__ import annotations

import orjson

from nemo_gym.responses._sse import DONE, sse_data, sse_event


def test_an_event_is_one_line_of_json_and_a_blank_line() -> None:
    data = {"type": "response.created", "text": "two\nlines \N{LINE SEPARATOR}"}
    assert sse_data(data) == b"data: " + orjson.dumps(data) + b"\n\n"
    assert sse_data(data).count(b"\n") == 2
    assert sse_event(data) == b"event: response.created\n" + sse_data(data)
    assert DONE.endswith(b"\n\n")
