"""A server process and its errors for an invalid configuration."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from pydantic import ValidationError

from nemo_gym import PARENT_DIR
from responses_api_models.openai_model.app import OpenAIModel
from tests.resources.computing import ComputingEnvironment


@pytest.mark.parametrize("options", [{"judge_api_key": "canary"}, {"factor": "canary"}])
def test_a_configuration_that_is_refused_is_not_printed(options: dict[str, str]) -> None:
    block = {"entrypoint": "app.py", "port": 1, **options}
    config = {"env": {"resources_servers": {"computing": block}}}
    with pytest.raises(ValidationError) as caught:
        ComputingEnvironment.build_server_config("env", config)
    assert "host" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_a_model_server_s_key_is_not_printed_either() -> None:
    block = {"entrypoint": "app.py", "host": "h", "port": 1, "openai_api_key": "canary"}
    with pytest.raises(ValidationError) as caught:
        OpenAIModel.build_server_config("m", {"m": {"responses_api_models": {"openai_model": block}}})
    assert "openai_base_url" in str(caught.value)
    assert "canary" not in str(caught.value)


SERVER = """
import asyncio, os, socket, sys
from pathlib import Path
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.serving.base import _serve
from tests.resources.computing import ComputingEnvironment


class Stopping(ComputingEnvironment):
    async def on_stop(self):
        Path("stopped").touch()


listening = socket.create_server(("127.0.0.1", 0))
port = listening.getsockname()[1]
block = {"entrypoint": "app.py", "host": "127.0.0.1", "port": port}
data = {"env": {"resources_servers": {"computing": block}}}
print(port, flush=True)
asyncio.run(
    _serve(
        lambda client: Stopping(config=Stopping.build_server_config("env", data), server_client=client),
        Bootstrap("env", data, "token", "c" * 64, [listening.detach()]),
    )
)
"""


def test_a_server_that_gets_sigterm_stops_before_it_ends(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(PARENT_DIR)}
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{int(server.stdout.readline())}/health"
        with urllib.request.urlopen(
            url, timeout=60
        ) as answer:  # the connection waits until the server accepts
            assert answer.status == 200
        server.terminate()
        assert server.wait(timeout=60) == -signal.SIGTERM
    assert (tmp_path / "stopped").exists()
