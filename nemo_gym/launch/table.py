"""The table of a gym's servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from nemo_gym.launch.gym import RunningGym
from nemo_gym.launch.observation import Figures, NodeObservation, Observation, observe, sum_by_node
from nemo_gym.launch.records import ServerRecord
from nemo_gym.tables import Column, table_lines, write_seconds

REFRESH_S = 1.0

_STYLE_OF_STATE: Mapping[str, str] = {
    "preparing": "yellow",
    "starting": "yellow",
    "ready": "green",
    "crashed": "red",
    "silent": "red",
    "draining": "yellow",
    "stopping": "yellow",
    "stopped": "dim",
    "failed": "bold red",
    "up": "green",
    "lost": "red",
}
_KIND_SHOWN: Mapping[str, str] = {
    "resources_servers": "resources",
    "responses_api_agents": "agent",
    "environment_servers": "episodes",
    "responses_api_models": "model",
    "head_server": "head",
}


_COLUMNS = (
    Column("server"),
    Column("state"),
    Column("port"),
    Column("calls", is_number=True),
    Column("errors", is_number=True),
    Column("open", is_number=True),
    Column("s/call", rank=1, is_number=True),
    Column("memory", rank=2, is_number=True),
    Column("restarts", rank=1, is_number=True),
    Column("kind", rank=3),
    Column("url", rank=4),
)
_PLACE_COLUMNS = (Column("node", rank=1), Column("moves", rank=3, is_number=True))
"""Further columns of servers on several machines."""
_NODE_COLUMNS = (
    Column("node"),
    Column("state"),
    Column("load", is_number=True),
    Column("replicas", is_number=True),
    Column("open", is_number=True),
    Column("restarts", rank=1, is_number=True),
    Column("losses", rank=2, is_number=True),
)


async def draw_until_cancelled(gym: RunningGym, console: Console, every_s: float = REFRESH_S) -> None:
    """Keep the table of `gym` at the bottom of `console`, below all printed lines."""
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            record = gym.record()
            observations = await observe(record, timeout_s=REFRESH_S)
            nodes = node_table(sum_by_node(record, observations), console.width)
            live.update(Group(*nodes, *server_table(observations, console.width)), refresh=True)
            await asyncio.sleep(every_s)


def server_table(observations: Sequence[Observation], width: int | None) -> list[Text]:
    """Return the lines of a table with one row per server process, in `width` columns of a terminal."""
    columns: Sequence[Column] = _COLUMNS
    rows = [_row(each, observations) for each in observations]
    if any(each.server.node for each in observations):
        columns = (*_COLUMNS, *_PLACE_COLUMNS)
        rows = [[*row, *_place_cells(each.server)] for row, each in zip(rows, observations, strict=True)]
    by_process = {
        each.server.pid: each.memory_bytes for each in observations if each.memory_bytes is not None
    }
    total = Text(f"{megabytes(sum(by_process.values()))} in all servers", style="dim")
    return [*table_lines(columns, rows, width), total]


def node_table(nodes: Sequence[NodeObservation], width: int | None) -> list[Text]:
    """Return the lines of a table with one row per machine, in `width` columns; none for a gym on one machine."""
    rows: list[list[str | Text]] = [
        [
            each.node.name,
            Text(each.node.state, style=_STYLE_OF_STATE.get(each.node.state, "")),
            f"{each.node.load:.1f}",
            f"{each.replicas:,}",
            f"{each.in_flight:,}",
            _color_count(each.restarts),
            _color_count(each.node.losses),
        ]
        for each in nodes
    ]
    return [*table_lines(_NODE_COLUMNS, rows, width), Text()] if rows else []


def tool_lines(observations: Sequence[Observation]) -> Iterator[str]:
    """Yield a line for each tool and verifier that was called: calls, seconds and errors, the slowest first."""
    found = [
        (f"{what} of {name_shown(each, observations)}", figures)
        for each in observations
        if each.figures is not None
        for what, figures in (
            *((f"tool `{name}`", tool) for name, tool in each.figures.tools.items()),
            *((("verify", each.figures.verify),) if each.figures.verify is not None else ()),
        )
    ]
    for what, figures in sorted(found, key=lambda each: -each[1].mean_seconds):
        place = f" ({figures.place})" if figures.place else ""
        last = f"; the last: {figures.cause}{place}" if figures.errors else ""
        seconds = f"{write_seconds(figures.mean_seconds)} each"
        yield f"{what}: {figures.calls:,} calls, {seconds}, {figures.errors:,} errors{last}"


def _row(each: Observation, observations: Sequence[Observation]) -> list[str | Text]:
    server = each.server
    return [
        name_shown(each, observations),
        Text(each.state, style=_STYLE_OF_STATE.get(each.state, "")),
        server.url.rpartition(":")[2],
        *_figure_cells(each.figures),
        megabytes(each.memory_bytes),
        _color_count(server.restarts),
        _KIND_SHOWN.get(server.kind, server.kind),
        server.url,
    ]


def _place_cells(server: ServerRecord) -> Sequence[str | Text]:
    return (server.node or "-", _color_count(max(0, server.generation - 1)))


def name_shown(observation: Observation, observations: Sequence[Observation]) -> str:
    """The server's name, with the replica's number if there are several."""
    server = observation.server
    replicas = sum(other.server.name == server.name for other in observations)
    return f"{server.name} #{server.replica}" if replicas > 1 else server.name


def megabytes(count: int | None) -> str:
    return "-" if count is None else f"{count / 1e6:.0f} MB"


def _figure_cells(figures: Figures | None) -> Sequence[str | Text]:
    if figures is None:
        return ("-", "-", "-", "-")
    mean = figures.mean_seconds
    seconds = "-" if mean is None else f"{mean:.3g}"
    return (f"{figures.requests:,}", _color_count(figures.errors), f"{figures.in_flight:,}", seconds)


def _color_count(count: int) -> Text:
    return Text(f"{count:,}", style="red" if count else "")
