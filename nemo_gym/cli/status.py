"""`ng_status`: the running gyms of this user, and the state of their servers."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from nemo_gym.cli.command import Command, ExitCode, Keys, print_folded

if TYPE_CHECKING:
    from nemo_gym.launch.observation import Observation
    from nemo_gym.launch.records import GymRecord


class StatusKeys(Keys):
    as_json: bool = Field(False, alias="json", description="Print JSON instead of tables.")
    timeout_s: float = Field(3.0, gt=0, description="Seconds that a server may take to respond.")


COMMAND = Command(
    name="ng_status",
    summary="Show this user's running gyms: state, requests and memory of every server.",
    example="ng_status +json=true",
    keys=StatusKeys,
    exit_codes={
        ExitCode.COMPLETE: "every server of the gyms in this folder responds",
        ExitCode.FATAL: "one does not respond, or no gym runs in this folder",
        ExitCode.BAD_INPUT: "wrong usage",
    },
)


def show_status(keys: StatusKeys) -> int:
    from nemo_gym.launch.records import Registry

    gyms = asyncio.run(_observe_all(Registry().list_running(), keys.timeout_s))
    if keys.as_json:
        print(json.dumps([_dump_gym(gym, observations) for gym, observations in gyms], indent=2))
    elif gyms:
        _print_tables(gyms)
    else:
        print_folded("no gym is running; start one with gym env start (ng_run)")
    here = [gym for gym in gyms if Path(gym[0].directory).resolve() == Path.cwd().resolve()]
    if gyms and not here:
        print("no gym runs in this folder; those of other folders are listed", file=sys.stderr)
    all_answer = all(each.answers for _, observations in here for each in observations)
    return ExitCode.COMPLETE if here and all_answer else ExitCode.FATAL


async def _observe_all(
    gyms: Iterable[GymRecord], timeout_s: float
) -> list[tuple[GymRecord, Sequence[Observation]]]:
    from nemo_gym.launch.observation import observe

    return [(gym, await observe(gym, timeout_s=timeout_s)) for gym in gyms]


def _dump_gym(gym: GymRecord, observations: Sequence[Observation]) -> dict[str, object]:
    """Return the gym without its token, because output ends up in logs."""
    from nemo_gym.launch.observation import sum_by_node

    return {
        "pid": gym.run.pid,
        "started_at": gym.run.started_at,
        "head": gym.run.head,
        "directory": gym.directory,
        "name": gym.name,
        "nodes": [each.to_json() for each in sum_by_node(gym, observations)],
        "servers": [each.to_json() for each in observations],
    }


def _print_tables(gyms: Iterable[tuple[GymRecord, Sequence[Observation]]]) -> None:
    from rich.console import Console

    from nemo_gym.launch.observation import sum_by_node
    from nemo_gym.launch.table import node_table, server_table, tool_lines
    from nemo_gym.tables import fold_text, terminal_width

    console = Console(highlight=False, soft_wrap=True)
    for gym, observations in gyms:
        name = f" {gym.name}" if gym.name else ""
        console.print(
            f"gym{name} of pid {gym.run.pid} in {gym.directory}, up since {gym.run.started_at}; logs: {gym.run.logs}",
            markup=False,
        )
        width = terminal_width()
        for line in [*node_table(sum_by_node(gym, observations), width), *server_table(observations, width)]:
            console.print(line)
        for text in tool_lines(observations):
            console.print(fold_text(text, width), markup=False)


main = COMMAND.entry_point(show_status)
