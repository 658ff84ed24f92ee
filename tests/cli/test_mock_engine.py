import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from nemo_gym.cli.mock_engine import COMMAND, main

COMMAND_LINE = [sys.executable, "-m", "nemo_gym.cli.mock_engine"]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([*COMMAND_LINE, *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_it_prints_its_address_as_json_serves_and_stops_at_sigterm() -> None:
    arguments = (
        "+json=true",
        "+model=policy",
        "+latency_s=uniform:0:0.1",
        "+faults=[{do: http_503, route: health}]",
    )
    with started(*arguments) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert (ready["model"], ready["pid"]) == ("policy", process.pid)
        assert ready["base_url"].startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{ready['base_url']}/models") as answer:
            assert json.load(answer)["data"][0]["id"] == "policy"
        with pytest.raises(urllib.error.HTTPError, match="503") as raised:
            urllib.request.urlopen(f"{ready['root_url']}/health")
        raised.value.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert process.stdout.read() == ""


def test_it_prints_one_line_of_text_and_stops_at_sigint() -> None:
    with started("+port=0") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("mock engine 'mock' at http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("+polcy=echo", "polcy"),
        ("+policy=script", "needs the file `script`"),
        ("+latency_s=soon", "uniform:LOW:HIGH"),
        ("+faults=[{do: http_418}]", "http_418"),
        ("+answers=/nowhere.jsonl", "/nowhere.jsonl"),
        ("+port=70000", "port"),
        ("+host=203.0.113.1", "203.0.113.1"),
    ],
)
def test_bad_keys_are_reported_and_exit_with_2(
    argument: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main([argument])
    assert exited.value.code == 2
    assert message in capsys.readouterr().err


def test_the_process_that_holds_the_port_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(SystemExit) as exited:
        main([f"+port={taken.getsockname()[1]}"])
    assert exited.value.code == 2
    assert f"the port is taken by pid {os.getpid()} (" in capsys.readouterr().err


def test_every_key_is_described_in_the_help() -> None:
    text = COMMAND.help()
    assert all(field.description for field in COMMAND.keys.model_fields.values())
    assert "latency_s  (distribution, default 0)" in text
