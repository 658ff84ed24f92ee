"""Supervision: readiness, restarts, and the end of server processes."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError, TransportError
from nemo_gym.launch import _logs, _supervisor
from nemo_gym.launch._states import ServerState
from nemo_gym.launch._supervisor import ServerEvent, describe_exit
from nemo_gym.launch.errors import LaunchError, UnusableServerError
from nemo_gym.launch.gym import launch
from tests.launch.small_servers import (
    STUBBORN,
    Workbench,
    config_of,
    facts_of,
)
from tests.waiting import until, until_gone, wait_until_gone


@pytest.mark.parametrize("forks", [True, False])
async def test_a_crashed_server_restarts_on_its_socket_while_a_caller_waits(
    bench: Workbench, forks: bool
) -> None:
    events: list[ServerEvent] = []
    options = bench.options(listeners=[events.append], forks=forks)
    async with launch(config_of(bench.instance("fragile")), options) as gym:
        await gym.wait_ready()
        url = gym.addresses["fragile"][0]
        before = (await facts_of(url))["pid"]
        with pytest.raises(TransportError, match="closed the connection"):
            await facts_of(url, "/crash")
        after = (await facts_of(url))["pid"]  # connects while no process accepts
        assert after != before
        states = [event.state for event in events if event.server == "fragile"]
        assert ServerState.CRASHED in states
        crash = next(event for event in events if event.state is ServerState.CRASHED)
        assert crash.detail == "exit code 7"
        assert gym.record().servers[1].restarts == 1
        assert "restart 1" in gym.servers[1].log_path.read_text()


async def test_a_server_that_would_restart_with_other_code_fails_the_gym(bench: Workbench) -> None:
    instance = bench.instance("edited")
    async with launch(config_of(instance), bench.options()) as gym:
        await gym.wait_ready()
        script = instance.directory / "app.py"
        script.write_text(script.read_text() + "# another reward")
        gym.servers[1].signal(signal.SIGKILL)
        failure = (await gym.failure).failure
        assert failure.code == "code_changed"
        assert "edited/app.py" in failure.message
        assert gym.servers[1].state is ServerState.FAILED


async def test_a_server_that_dies_at_its_start_fails_the_gym_with_the_root_cause(bench: Workbench) -> None:
    broken = bench.instance("broken", "import a_module_that_is_not_there")
    async with launch(config_of(broken, bench.instance("fine")), bench.options()) as gym:
        with pytest.raises(LaunchError) as caught:
            await gym.wait_ready()
        assert caught.value.failure.message.startswith(
            "ModuleNotFoundError: No module named 'a_module_that_is_not_there'"
        )
        assert "`broken` died 3 times in a row" in caught.value.failure.message
        assert str(gym.servers[1].log_path) in (caught.value.failure.remedy or "")
        assert gym.servers[1].state is ServerState.FAILED


async def test_a_server_that_dies_silently_when_restarted_is_explained_by_its_first_error(
    bench: Workbench, tmp_path: Path
) -> None:
    tried = tmp_path / "tried"
    code = f"""
import os, pathlib
if pathlib.Path({str(tried)!r}).exists():
    os._exit(3)
pathlib.Path({str(tried)!r}).touch()
raise OSError("the table is gone")
"""
    async with launch(config_of(bench.instance("broken", code)), bench.options()) as gym:
        with pytest.raises(LaunchError) as caught:
            await gym.wait_ready()
    assert caught.value.failure.message.startswith("OSError: the table is gone\n`broken` died 3 times")


async def test_a_server_that_has_to_be_corrected_is_tried_once(bench: Workbench) -> None:
    broken = bench.instance(
        "broken", "import sys; print('app.py:3: write it so', file=sys.stderr); sys.exit(2)"
    )
    async with launch(config_of(broken, bench.instance("fine")), bench.options()) as gym:
        with pytest.raises(UnusableServerError, match=r"app\.py:3: write it so") as caught:
            await gym.wait_ready()
        assert isinstance(caught.value, ConfigError)
        assert "`broken` cannot start" in caught.value.failure.message
        assert "restart" not in gym.servers[1].log_path.read_text()


async def test_the_log_of_a_running_server_is_rotated(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_supervisor, "_ROTATION_INTERVAL_S", 0.01)
    monkeypatch.setattr(_logs, "rotate", partial(_logs.rotate, max_bytes=1000, kept_bytes=100))
    talker = bench.instance("talker", "print('x' * 2000, flush=True)")
    async with launch(config_of(talker), bench.options()) as gym:
        await gym.wait_ready()
        log = gym.servers[1].log_path
        await until(log.with_name(f"{log.name}.1").exists)
        assert log.stat().st_size < 1000
        await facts_of(gym.addresses["talker"][0])


async def test_stopping_kills_a_server_that_ignores_sigterm(
    bench: Workbench,
) -> None:
    config = config_of(bench.instance("stubborn", STUBBORN), bench.instance("polite"))
    async with launch(config, bench.options()) as gym:
        await gym.wait_ready()
        pids = [server.pid for server in gym.servers]
        await gym.stop()
    assert {server.state for server in gym.servers} == {ServerState.STOPPED}
    for pid in pids:
        assert pid is not None
        wait_until_gone(pid)
    for server in gym.servers:
        with pytest.raises(TransportError, match="refuses the connection"):
            await facts_of(server.url)


async def test_servers_restart_after_their_fork_server_was_killed(
    bench: Workbench,
) -> None:
    options = bench.options()
    async with launch(config_of(bench.instance("child")), options) as gym:
        await gym.wait_ready()
        before = {server.pid for server in gym.servers}
        assert options.fork_server is not None
        os.kill(options.fork_server.start(), signal.SIGKILL)
        await until(lambda: all(server.restarts for server in gym.servers))
        after = (await facts_of(gym.addresses["child"][0]))["pid"]
        assert after not in before
        for pid in before:
            assert pid is not None
            await until_gone(pid)


async def test_a_server_that_never_answers_ends_the_gym_in_time_with_its_name_and_log(
    bench: Workbench,
) -> None:
    silent = bench.instance("silent", preamble="import time; time.sleep(60)")
    async with launch(config_of(silent, startup_timeout_s=10.0), bench.options()) as gym:
        with pytest.raises(LaunchError, match=r"`silent` did not answer within 10 s") as caught:
            await gym.wait_ready()
        (server,) = (each for each in gym.servers if each.name == "silent")
        assert server.state is ServerState.FAILED
        assert str(server.log_path) in (caught.value.failure.remedy or "")
        assert server.pid is None


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exit code 0"), (7, "exit code 7"), (-11, "killed by SIGSEGV"), (-99, "killed by signal 99")],
)
def test_an_exit_is_described_by_its_code_or_signal(code: int, text: str) -> None:
    assert describe_exit(code) == text
