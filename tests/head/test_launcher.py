"""The head server's requests to the launcher; tests/launch/test_control.py has those that the launcher answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from nemo_gym.failures import TransportError
from nemo_gym.head._launcher import ask_launcher, not_scalable
from nemo_gym.head.server import HeadServer
from nemo_gym.transport import InMemoryTransport
from nemo_gym.transport.server_client import ServerClient

HEAD = {"head_server": {"host": "127.0.0.1", "port": 11000}}


def answer_of_head(config: dict[str, Any], **body: Any) -> tuple[int, dict[str, Any]]:
    head = HeadServer(
        config=HeadServer.build_server_config("head_server", config),
        server_client=ServerClient.connect(config, transport=InMemoryTransport(), token=None),
    )
    answer = TestClient(head.setup_webserver()).post("/_ng/scale", json=body)
    return answer.status_code, answer.json()["error"]


async def test_a_launcher_that_is_gone_is_a_failure() -> None:
    with pytest.raises(TransportError, match="does not answer") as caught:
        await ask_launcher("127.0.0.1:1", "token", {})
    assert caught.value.failure.code == "launcher_gone"


def test_a_gym_on_one_machine_is_not_scaled() -> None:
    status, error = answer_of_head(HEAD, servers={"env": 2})
    assert (status, error["code"]) == (409, not_scalable().failure.code)
    assert "+placement=hosts" in error["remedy"]


def test_the_launcher_is_asked_at_the_address_in_the_directory(tmp_path: Path) -> None:
    file = tmp_path / "directory.json"
    document = {"version": 1, "head": "http://h", "servers": {}, "file": str(file), "control": "127.0.0.1:1"}
    file.write_text(json.dumps(document))
    status, error = answer_of_head({**HEAD, "_ng_directory": document}, servers={"env": 2})
    assert (status, error["code"], error["peer"]) == (502, "launcher_gone", "127.0.0.1:1")


@pytest.mark.parametrize(
    "body",
    [{}, {"servers": {"env": "many"}}, {"servers": {}, "drain_timeout_s": -1}, {"servers": {}, "x": 1}],
)
def test_a_request_of_another_form_is_refused(body: dict[str, Any]) -> None:
    assert answer_of_head(HEAD, **body)[0] == 422
