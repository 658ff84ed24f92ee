"""A mock engine as a program of a parent process."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request

from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.mock_engine.serving import ready_line
from nemo_gym.processes import messages

PROGRAM = """
import socket, sys
from nemo_gym.mock_engine.serving import main
main(socket.socket(fileno=int(sys.argv[1])))
"""


def test_it_receives_options_announces_its_urls_and_ends_with_the_channel() -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", PROGRAM, str(theirs.fileno())]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]) as process, ours:
        theirs.close()
        messages.send(ours, EngineOptions(model="policy").model_dump(mode="json"))
        base_url, root_url = messages.receive(ours)
        assert base_url == f"{root_url}/v1"
        with urllib.request.urlopen(f"{base_url}/models") as answer:
            assert json.load(answer)["data"][0]["id"] == "policy"
        ours.close()
        assert process.wait(60) == 0


async def test_the_ready_line_is_json_with_the_urls() -> None:
    async with MockEngine(EngineOptions(model="policy")) as engine:
        ready = json.loads(ready_line(engine))
    assert (ready["base_url"], ready["model"]) == (engine.base_url, "policy")
    assert ready["pid"] > 0
