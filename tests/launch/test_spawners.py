from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.launch._spawners import ProcessSpawner, ServerProcess, Spawner
from nemo_gym.launch.errors import LaunchError
from nemo_gym.processes.fork_server import ForkServer


@pytest.fixture(params=["forked", "executed"])
async def spawner(request: pytest.FixtureRequest) -> AsyncIterator[Spawner]:
    made = ProcessSpawner(ForkServer(), forks=request.param == "forked")
    yield made
    await made.close()


def a_process(folder: Path, source: str, **changes: object) -> ServerProcess:
    script = folder / "app.py"
    script.write_text(source)
    defaults: dict[str, object] = {
        "script": script,
        "search_path": (str(folder),),
        "sockets": (),
        "bootstrap": Bootstrap("small", {"key": "value"}, "token", "cookie", []),
        "log_path": folder / "small.log",
    }
    return ServerProcess(**{**defaults, **changes})  # type: ignore[arg-type]


async def run(spawner: Spawner, process: ServerProcess) -> int:
    child = await spawner.spawn(process)
    async with asyncio.timeout(30):
        return await child.exited


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("pass", 0),
        ("raise SystemExit(3)", 3),
        ("raise ValueError('wrong')", 1),
        ("import os; os.kill(os.getpid(), 11)", -11),
    ],
)
async def test_the_exit_code_is_reported(spawner: Spawner, tmp_path: Path, source: str, code: int) -> None:
    assert await run(spawner, a_process(tmp_path, source)) == code


async def test_a_log_has_a_processs_output_in_order(spawner: Spawner, tmp_path: Path) -> None:
    source = (
        "import sys\nprint('one')\nprint('two', file=sys.stderr)\nprint('three')\nraise ValueError('four')"
    )
    process = a_process(tmp_path, source)
    await run(spawner, process)
    lines = process.log_path.read_text().splitlines()
    assert lines[:3] == ["one", "two", "three"]
    assert lines[-1] == "ValueError: four"


async def test_a_script_runs_as_main_in_its_folder_and_may_import_its_neighbours(
    spawner: Spawner, tmp_path: Path
) -> None:
    (tmp_path / "neighbour_of_app.py").write_text("word = 'found'")
    source = (
        "import os, sys, neighbour_of_app\n"
        "assert __name__ == '__main__'\n"
        "assert os.getcwd() == os.path.dirname(__file__)\n"
        "assert sys.argv == [__file__]\n"
        "print(neighbour_of_app.word)"
    )
    process = a_process(tmp_path, source)
    assert await run(spawner, process) == 0, process.log_path.read_text()
    assert process.log_path.read_text() == "found\n"


async def test_a_process_gets_its_bootstrap_but_not_in_its_environment(
    spawner: Spawner, tmp_path: Path
) -> None:
    source = (
        "import os\n"
        "from nemo_gym.config.bootstrap import current\n"
        "given = current()\n"
        "assert given.global_config == {'key': 'value'} and given.run_token == 'token'\n"
        "assert not any('NEMO_GYM' in name or 'token' in value for name, value in os.environ.items())\n"
        "found = {}\n"
        "for fd in os.listdir('/proc/self/fd'):\n"
        "    if os.path.exists(f'/proc/self/fd/{fd}'):  # the listing's own is closed by now\n"
        "        found[int(fd)] = os.readlink(f'/proc/self/fd/{fd}')\n"
        "assert sorted(found) == [0, 1, 2], found"
    )
    process = a_process(tmp_path, source)
    assert await run(spawner, process) == 0, process.log_path.read_text()


async def test_another_interpreter_can_run_the_script(spawner: Spawner, tmp_path: Path) -> None:
    process = a_process(tmp_path, "import sys; print(sys.executable)", python=sys.executable)
    assert await run(spawner, process) == 0
    assert process.log_path.read_text() == f"{sys.executable}\n"


async def test_a_process_can_be_signalled_until_it_ends(spawner: Spawner, tmp_path: Path) -> None:
    child = await spawner.spawn(a_process(tmp_path, "import time; time.sleep(60)"))
    child.signal(signal.SIGTERM)
    assert await child.exited == -signal.SIGTERM
    child.signal(signal.SIGTERM)


async def test_forks_do_not_share_their_random_numbers(tmp_path: Path) -> None:
    spawner = ProcessSpawner(ForkServer())
    process = a_process(tmp_path, "import random, uuid; print(random.random(), uuid.uuid4())")
    await run(spawner, process)
    await run(spawner, process)
    await spawner.close()
    first, second = process.log_path.read_text().splitlines()
    assert not set(first.split()) & set(second.split())


async def test_a_missing_interpreter_is_logged_by_its_server(spawner: Spawner, tmp_path: Path) -> None:
    process = a_process(tmp_path, "pass", python="/nowhere/python")
    assert await run(spawner, process) == 1
    assert "FileNotFoundError" in process.log_path.read_text()


async def test_servers_start_although_the_fork_server_was_killed(spawner: Spawner, tmp_path: Path) -> None:
    assert isinstance(spawner, ProcessSpawner)
    running = await spawner.spawn(a_process(tmp_path, "import time; time.sleep(300)"))
    os.kill(spawner.fork_server.start(), signal.SIGKILL)
    assert await run(spawner, a_process(tmp_path, "raise SystemExit(5)")) == 5
    assert await running.exited == -signal.SIGKILL


async def test_a_closed_spawner_starts_nothing(spawner: Spawner, tmp_path: Path) -> None:
    await spawner.close()
    with pytest.raises(LaunchError, match="fork server has ended"):
        await spawner.spawn(a_process(tmp_path, "pass"))


async def test_a_process_that_has_just_started_is_ended_too(spawner: Spawner, tmp_path: Path) -> None:
    child = await spawner.spawn(a_process(tmp_path, "import time; time.sleep(300)"))
    async with asyncio.timeout(30):
        await spawner.close()
    assert child.exited.result() in (-signal.SIGTERM, -signal.SIGKILL)
