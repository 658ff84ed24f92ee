"""The calls of a run have its token, if it has one."""

from __future__ import annotations

from nemo_gym.names import TOKEN_HEADER
from nemo_gym.rollouts.run.headers import json_headers
from nemo_gym.transport import Caller, Directory, InMemoryTransport


def test_a_call_has_the_token_of_its_run() -> None:
    directory, transport = Directory({}), InMemoryTransport({})
    assert json_headers(Caller(directory, transport)) == {"content-type": "application/json"}
    with_token = json_headers(Caller(directory, transport, token="a-token"))
    assert with_token == {"content-type": "application/json", TOKEN_HEADER: "a-token"}
