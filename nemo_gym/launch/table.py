"""The table of a gym's servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from nemo_gym.launch.gym import RunningGym
from nemo_gym.launch.observation import Figures, Observation, observe

REFRESH_S = 1.0

_STYLE_OF_STATE: Mapping[str, str] = {
    "preparing": "yellow",
    "starting": "yellow",
    "ready": "green",
    "crashed": "red",
    "silent": "red",
    "stopping": "yellow",
    "stopped": "dim",
    "failed": "bold red",
}
_KIND_SHOWN: Mapping[str, str] = {
    "resources_servers": "resources",
    "responses_api_agents": "agent",
    "environment_servers": "episodes",
    "responses_api_models": "model",
    "head_server": "head",
}


async def draw_until_cancelled(gym: RunningGym, console: Console, every_s: float = REFRESH_S) -> None:
    """Keep the table of `gym` at the bottom of `console`, below all printed lines."""
    with Live(console=console, auto_refresh=False, transient=False) as live:
        while True:
            observations = await observe(gym.record(), timeout_s=REFRESH_S)
            live.update(server_table(observations), refresh=True)
            await asyncio.sleep(every_s)


def server_table(observations: Sequence[Observation]) -> Table:
    """One row per server process."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("server", "kind", "url", "state"):
        table.add_column(title, no_wrap=True)
    for title in ("requests", "errors", "in flight", "memory", "restarts"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in observations:
        server = each.server
        table.add_row(
            Text(name_shown(each, observations)),
            _KIND_SHOWN.get(server.kind, server.kind),
            Text(server.url),
            Text(each.state, style=_STYLE_OF_STATE.get(each.state, "")),
            *_figure_cells(each.figures),
            megabytes(each.memory_bytes),
            _alarming(server.restarts),
        )
    by_process = {
        each.server.pid: each.memory_bytes for each in observations if each.memory_bytes is not None
    }
    table.caption = f"{megabytes(sum(by_process.values()))} in all servers"
    table.caption_justify = "left"
    return table


def name_shown(observation: Observation, observations: Sequence[Observation]) -> str:
    """The server's name, with the replica's number if there are several."""
    server = observation.server
    replicas = sum(other.server.name == server.name for other in observations)
    return f"{server.name} #{server.replica}" if replicas > 1 else server.name


def megabytes(count: int | None) -> str:
    return "-" if count is None else f"{count / 1e6:.0f} MB"


def _figure_cells(figures: Figures | None) -> Sequence[str | Text]:
    if figures is None:
        return ("-", "-", "-")
    return (f"{figures.requests:,}", _alarming(figures.errors), f"{figures.in_flight:,}")


def _alarming(count: int) -> Text:
    return Text(f"{count:,}", style="red" if count else "")
