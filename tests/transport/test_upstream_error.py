"""The exception for a peer's error status."""

from __future__ import annotations

import aiohttp
import orjson
import pytest
from multidict import CIMultiDict

from nemo_gym.failures import Boundary, InputError
from nemo_gym.transport import Reply
from nemo_gym.transport.server_client import ServerReply

URL = "http://env:1/verify"


def raised_for(status: int, body: bytes) -> aiohttp.ClientResponseError:
    with pytest.raises(aiohttp.ClientResponseError) as caught:
        ServerReply(Reply(status, CIMultiDict(), body), "POST", URL).raise_for_status()
    return caught.value


def test_it_is_aiohttp_s_exception_with_the_root_cause() -> None:
    failure = InputError(
        "the row has no answer", code="invalid_row", place="resources_servers/quiz/app.py:35"
    ).failure
    error = raised_for(422, orjson.dumps(failure.to_wire()))
    assert (error.status, error.message) == (
        422,
        "the row has no answer, raised at resources_servers/quiz/app.py:35",
    )
    assert str(error) == f"{error.message} (HTTP 422 of {URL})"
    assert str(error.request_info.url) == URL
    assert error.request_info.method == "POST"
    assert error.failure.boundary is Boundary.INPUT  # type: ignore[attr-defined]
    assert error.response_content == orjson.dumps(failure.to_wire())  # type: ignore[attr-defined]


def test_without_an_envelope_the_message_is_the_start_of_the_body() -> None:
    error = raised_for(502, b"bad gateway \xff" + b"x" * 5_000)
    assert error.message.startswith("bad gateway \ufffd")
    assert len(error.message) == 2_000


def test_a_success_raises_nothing() -> None:
    ServerReply(Reply(204, CIMultiDict(), b""), "POST", URL).raise_for_status()
