import signal
import socket
import subprocess
import sys
import urllib.request
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine import EngineOptions, EngineProcess
from tests.waiting import is_running, wait_until_gone

HOLDER = """
import sys, time
from nemo_gym.mock_engine import EngineProcess
engine = EngineProcess()
engine.start()
print(engine.pid, flush=True)
time.sleep(60)
"""


def test_a_process_serves_its_options_and_ends_with_its_block() -> None:
    with EngineProcess(EngineOptions(model="policy", latency_s="uniform:0:0.1")) as engine:
        pid = engine.pid
        assert engine.base_url == f"{engine.root_url}/v1"
        urllib.request.urlopen(f"{engine.base_url}/models").close()
        assert engine.stats()["requests"] == {"/v1/models": 1}
        engine.reset_stats()
        assert engine.stats()["requests_total"] == 0
    assert not is_running(pid)
    with pytest.raises(RuntimeError, match="not running"):
        _ = engine.pid


def test_its_resets_are_resets_on_the_faster_event_loop_too() -> None:
    with EngineProcess(EngineOptions(faults=[{"do": "reset_before", "route": "models"}])) as engine:
        host, port = engine.root_url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                connection.recv(1)
        assert (engine.stats()["faults"], engine.stats()["disconnects"]) == ({"reset_before": 1}, 0)


@pytest.mark.parametrize("options", [{"policy": "answer", "answers": "/nowhere"}, {"faults": "/nowhere"}])
def test_options_that_can_t_be_used_start_no_process(options: dict[str, Any]) -> None:
    engine = EngineProcess(EngineOptions(**options))
    with pytest.raises(ConfigError, match="/nowhere"):
        engine.start()
    with pytest.raises(RuntimeError):
        _ = engine.pid


def test_the_engine_dies_with_a_parent_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        pid = int(holder.stdout.readline())
        holder.send_signal(signal.SIGKILL)
    wait_until_gone(pid)
