"""The table of a gym's servers."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace

import pytest
from rich.console import Console

from nemo_gym.launch.gym import launch
from nemo_gym.launch.observation import Figures, NodeObservation, Observation, ToolFigures
from nemo_gym.launch.records import NodeRecord
from nemo_gym.launch.table import draw_until_cancelled, node_table, server_table, tool_lines
from tests.launch.observed import a_server
from tests.launch.small_servers import Workbench, config_of
from tests.screens import LONG_NAMES, WIDTHS, is_as_captured
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
    first = Observation(a_server("http://127.0.0.1:1"), True, Figures(1234, 2, 3, seconds=61.55), 30_000_000)
    second = Observation(replace(first.server, replica=1, restarts=1), False, None, None)
    lines = [" ".join(str(line).split()) for line in server_table([first, second], 150)]
    assert lines == [
        "server state port calls errors open s/call memory restarts kind url",
        "env #0 ready 1 1,234 2 3 0.05 30 MB 0 resources http://127.0.0.1:1",
        "env #1 silent 1 - - - - - 1 resources http://127.0.0.1:1",
        "30 MB in all servers",
    ]


def test_tools_and_verifiers_have_a_line_each_the_slowest_first() -> None:
    def lines(verify: ToolFigures | None = None, **tools: ToolFigures) -> list[str]:
        figures = Figures(9, 2, 0, tools, verify)
        return [*tool_lines([Observation(a_server("http://127.0.0.1:1"), True, figures, None)])]

    assert lines() == []
    boom = ToolFigures(1024, 24, "ValueError: boom", "app.py:48", 1.024)
    assert lines(ToolFigures(7, 0, seconds=14.0), guess=boom, peek=ToolFigures(3, 0, seconds=4.5)) == [
        "verify of env: 7 calls, 2 s each, 0 errors",
        "tool `peek` of env: 3 calls, 1.5 s each, 0 errors",
        "tool `guess` of env: 1,024 calls, 0.001 s each, 24 errors; the last: ValueError: boom (app.py:48)",
    ]


def test_the_table_of_several_machines_names_the_nodes() -> None:
    here = Observation(a_server("http://127.0.0.1:1"), True, None, None)
    there = Observation(replace(here.server, replica=1, node="b", generation=3), True, None, None)
    lines = [" ".join(str(line).split()) for line in server_table([here, there], 150)]
    assert lines[:3] == [
        "server state port calls errors open s/call memory restarts kind url node moves",
        "env #0 ready 1 - - - - - 0 resources http://127.0.0.1:1 - 0",
        "env #1 ready 1 - - - - - 0 resources http://127.0.0.1:1 b 2",
    ]


def test_every_machine_has_a_row_and_one_machine_alone_no_table() -> None:
    nodes = [
        NodeObservation(NodeRecord("a", "up", 1.26, 0), replicas=3, in_flight=1200, restarts=0),
        NodeObservation(NodeRecord("b", "lost", 0.0, 2), replicas=0, in_flight=0, restarts=1),
    ]
    lines = [" ".join(str(line).split()) for line in node_table(nodes, 150)]
    assert lines == [
        "node state load replicas open restarts losses",
        "a up 1.3 3 1,200 0 0",
        "b lost 0.0 0 0 1 2",
        "",
    ]
    assert node_table([], 150) == []


def many_observations() -> list[Observation]:
    """Twelve servers with names of 40 characters in several states."""
    states = ("ready", "preparing", "crashed")
    return [
        Observation(
            replace(a_server(f"http://127.0.0.1:{34000 + 7 * number}"), name=name, state=states[number % 3]),
            number % 3 == 0,
            Figures(1000 * number, number, 3 * number) if number % 3 == 0 else None,
            (20 + number) * 1_000_000 if number % 3 == 0 else None,
        )
        for number, name in enumerate(LONG_NAMES)
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_keeps_names_states_ports_and_counts_at_every_width(width: int) -> None:
    lines = [str(line) for line in server_table(many_observations(), width)]
    assert max(map(len, lines)) <= width
    for name, observed in zip(LONG_NAMES, many_observations(), strict=True):
        (row,) = [line for line in lines if line.startswith(name)]
        assert {observed.state, observed.server.url.rpartition(":")[2]} <= set(row.split())
    assert is_as_captured(f"servers_{width}", lines)
