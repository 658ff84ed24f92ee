from __future__ import annotations

import asyncio
import io
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.launch.errors import LaunchError
from nemo_gym.launch.gym import RunningGym, launch
from nemo_gym.launch.reporting import Reporter
from nemo_gym.launch.serving import _network_note, serve, stop_signals, wait_ready_or
from tests.launch.small_servers import Workbench, config_of

SLOW = "import time; time.sleep(0.5)"


async def test_slow_servers_are_reported_while_they_start(bench: Workbench) -> None:
    stream = io.StringIO()
    async with launch(
        config_of(bench.instance("slow", SLOW), bench.instance("quick")), bench.options()
    ) as gym:
        reporter = Reporter(lambda: stream)
        assert await wait_ready_or(asyncio.Event(), gym, reporter, time.monotonic(), note_every_s=0.2)
    lines = stream.getvalue().splitlines()
    assert any(line.startswith("still starting after") and line.endswith("slow") for line in lines)
    assert lines[-1].startswith("all 3 servers are ready")


async def test_a_stop_ends_the_waiting(bench: Workbench) -> None:
    stop = asyncio.Event()
    stop.set()
    async with launch(config_of(bench.instance("slow", SLOW)), bench.options()) as gym:
        assert not await wait_ready_or(stop, gym, Reporter(io.StringIO), time.monotonic())


async def test_signals_set_the_event_and_an_ignored_one_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals() as stop:
            signal.raise_signal(signal.SIGHUP)
            await asyncio.sleep(0.01)
            assert not stop.is_set()
            signal.raise_signal(signal.SIGTERM)
            async with asyncio.timeout(30):
                await stop.wait()
    finally:
        signal.signal(signal.SIGHUP, before)


async def test_a_failed_server_ends_the_serving(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bench.folder)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bench.folder))
    options = bench.options()

    async def break_the_server(gym: RunningGym) -> None:
        (bench.folder / "env" / "app.py").write_text("raise RuntimeError('broken since')")
        gym.servers[1].signal(signal.SIGKILL)
        await asyncio.Event().wait()

    config = config_of(bench.instance("env"), head_server={"port": 0})
    with pytest.raises(LaunchError, match="RuntimeError: broken since"):
        await serve(
            config,
            Reporter(io.StringIO),
            asyncio.Event(),
            began=time.monotonic(),
            fork_server=options.fork_server,
            while_up=break_the_server,
        )


async def test_the_first_line_names_the_isolation_of_code(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.folder)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bench.folder))
    stop, stream = asyncio.Event(), io.StringIO()
    stop.set()
    config = replace(config_of(bench.instance("env"), head_server={"port": 0}), code_runners=["env"])
    fork_server = bench.options().fork_server
    await serve(config, Reporter(lambda: stream), stop, began=time.monotonic(), fork_server=fork_server)
    assert stream.getvalue().startswith("env: code of models runs in isolation `")


async def test_a_missing_sandbox_provider_is_named_before_anything_starts(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.folder)
    instance = bench.instance("env")
    options = {**instance.config, "sandbox_provider": {"opensandbox": {}}}
    config = config_of(replace(instance, config=options), head_server={"port": 0})
    stream = io.StringIO()
    with pytest.raises(ConfigErrors, match="env: there is no sandbox provider 'opensandbox' here"):
        await serve(
            config,
            Reporter(lambda: stream),
            asyncio.Event(),
            began=time.monotonic(),
            fork_server=bench.options().fork_server,
        )
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({"head_server": {"host": "127.0.0.1", "port": 1}}, []),
        ({"head_server": {"host": "0.0.0.0", "port": 1}}, ["x-ng-token", "+run_token", "_ng_run.token"]),
        ({"head_server": {"host": "0.0.0.0", "port": 1}, "open_network": True}, ["are open"]),
    ],
)
def test_a_gym_that_other_machines_reach_says_how_to_call_it(
    config: dict[str, object], wanted: list[str]
) -> None:
    note = _network_note(config, Path(".nemo_gym_global_config.yaml"))
    assert (note is None) is (not wanted)
    assert all(each in (note or "") for each in wanted)
