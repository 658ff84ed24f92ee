"""The table of a gym's servers."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace

from rich.console import Console

from nemo_gym.launch.gym import launch
from nemo_gym.launch.observation import Figures, Observation
from nemo_gym.launch.table import draw_until_cancelled, server_table
from tests.launch.observed import a_server
from tests.launch.small_servers import Workbench, config_of
from tests.waiting import until


async def test_the_live_table_shows_every_server_and_refreshes(bench: Workbench) -> None:
    stream = io.StringIO()
    async with launch(config_of(bench.instance("env")), bench.options()) as gym:
        await gym.wait_ready()
        drawing = asyncio.create_task(
            draw_until_cancelled(gym, Console(file=stream, force_terminal=True, width=150), every_s=0.05)
        )
        await until(lambda: stream.getvalue().count("env ") >= 2)
        drawing.cancel()
        await asyncio.gather(drawing, return_exceptions=True)
    assert gym.addresses["env"][0] in stream.getvalue()


def test_the_table_has_a_row_per_replica() -> None:
    first = Observation(a_server("http://127.0.0.1:1"), True, Figures(1234, 2, 3), 30_000_000)
    second = Observation(replace(first.server, replica=1, restarts=1), False, None, None)
    console = Console(width=150, record=True, file=io.StringIO())
    console.print(server_table([first, second]))
    lines = console.export_text().splitlines()
    assert " ".join(lines[0].split()) == "server kind url state requests errors in flight memory restarts"
    assert " ".join(lines[1].split()) == "env #0 resources http://127.0.0.1:1 ready 1,234 2 3 30 MB 0"
    assert " ".join(lines[2].split()) == "env #1 resources http://127.0.0.1:1 silent - - - - 1"
    assert lines[3].startswith("30 MB in all servers")
