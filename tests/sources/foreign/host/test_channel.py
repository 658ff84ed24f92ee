"""The channel of a host: JSON lines on pipes."""

from __future__ import annotations

import io
import json
import os

import pytest

from nemo_gym.sources.foreign.host.channel import MOST_LINE_BYTES, HostChannel
from nemo_gym.sources.foreign.host.faults import HostError


def test_requests_are_lines_until_the_gym_ends() -> None:
    source = io.BytesIO(b'{"v": 1, "id": 1, "type": "ping"}\n{"v": 1, "id": 2}\n{"v": 1, "id')
    channel = HostChannel(source, -1)
    assert channel.receive() == {"v": 1, "id": 1, "type": "ping"}
    assert channel.receive() == {"v": 1, "id": 2}
    assert channel.receive() is None


@pytest.mark.parametrize("line", [b"no JSON\n", b"[1]\n", b'{"v": 2, "id": 1}\n', b'{"v": 1}\n'])
def test_other_lines_are_refused(line: bytes) -> None:
    with pytest.raises(HostError):
        HostChannel(io.BytesIO(line), -1).receive()


def send(message: dict[str, object]) -> bytes:
    reading, writing = os.pipe()
    try:
        HostChannel(io.BytesIO(), writing).send(message)
        os.close(writing)
        with os.fdopen(reading, "rb") as file:
            return file.read()
    except BaseException:
        os.close(reading)
        os.close(writing)
        raise


def test_a_message_is_one_line_of_utf_8() -> None:
    line = send({"id": 1, "text": "über\n\ud800"})
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"v": 1, "id": 1, "text": "über\n?"}


@pytest.mark.parametrize("value", [float("nan"), "x" * MOST_LINE_BYTES])
def test_what_is_no_message_is_an_error(value: object) -> None:
    with pytest.raises(HostError):
        send({"id": 1, "value": value})
