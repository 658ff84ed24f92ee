"""A launcher in a process of its own, for programs that embed a gym.

A trainer's interpreter is busy, runs threads and forks; supervision has no place in it. The trainer sends the loaded
configuration and gets a `Ready` or the `Failure` that ended the gym, which may also come later. When the channel is
closed, or the trainer is gone, the gym ends.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from typing import Any, NamedTuple

import nemo_gym.config.loading  # noqa: F401 - of which the message will be; imported while the trainer reads it
from nemo_gym.failures import GymError
from nemo_gym.launch.gym import Gym, LaunchableConfig
from nemo_gym.launch.reporting import LineReporter
from nemo_gym.launch.serving import serve, stop_signals
from nemo_gym.processes import messages
from nemo_gym.processes.fork_server import ForkServer
from nemo_gym.processes.program import until_parent_ends


class Ready(NamedTuple):
    """All servers answer."""

    config: dict[str, Any]
    """The configuration with every address."""
    token: str
    head_url: str


async def host(
    config: LaunchableConfig, fork_server: ForkServer, began: float, channel: socket.socket
) -> None:
    """Run the gym until the channel is closed, the parent is gone, or a signal comes."""

    async def send_ready(gym: Gym) -> None:
        messages.send(channel, Ready(gym.config, gym.token, gym.head_url))
        await asyncio.Event().wait()

    reporter = LineReporter(lambda: sys.stderr)
    with stop_signals() as stop:
        watching = asyncio.create_task(until_parent_ends(channel))
        watching.add_done_callback(lambda _: stop.set())
        try:
            await serve(config, reporter, stop, began=began, fork_server=fork_server, while_up=send_ready)
        finally:
            watching.cancel()


def main(channel: socket.socket, fork_server: ForkServer) -> None:
    """Host the gym whose configuration comes over the channel."""
    began = time.monotonic()
    try:
        config = messages.receive(channel)
    except EOFError:
        return  # the embedding program found its configuration wanting
    try:
        asyncio.run(host(config, fork_server, began, channel))
    except GymError as error:
        messages.send(channel, error.failure)
        sys.exit(1)
