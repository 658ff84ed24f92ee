"""A launcher in its own process, for programs that embed a gym.

A trainer's interpreter is busy, runs threads and forks, so supervision runs outside it. The trainer requests
the inspection of servers, sends an `Order` and receives `Ready`, and a `Failure` if the gym fails, at its start or
later. The gym ends when the channel is closed or the trainer has ended.
"""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, field_validator

import nemo_gym.config.loading  # noqa: F401 - the class of the message, imported while the trainer loads it
from nemo_gym.config.servers import ServerInstance
from nemo_gym.failures import GymError
from nemo_gym.launch.gym import LaunchableConfig, PlacementName, RunningGym
from nemo_gym.launch.inspection import inspect
from nemo_gym.launch.reporting import Reporter
from nemo_gym.launch.serving import serve, stop_signals
from nemo_gym.processes import messages
from nemo_gym.processes.fork_server import ForkServer
from nemo_gym.processes.program import wait_until_parent_ends


class EmbeddedKeys(BaseModel):
    """The keys of a trainer's configuration that are no keys of its servers."""

    placement: PlacementName = "process"
    """As of `ng_run`."""

    @field_validator("placement")
    @classmethod
    def _can_be_called(cls, placement: PlacementName) -> PlacementName:
        if placement == "inline":
            raise ValueError("A trainer cannot call servers that share a process of their own: use process.")
        return placement


class Order(NamedTuple):
    """A gym to start."""

    config: LaunchableConfig
    placement: PlacementName


class InspectionRequest(NamedTuple):
    """The servers whose options are checked, and the data of their configuration."""

    servers: Sequence[ServerInstance]
    data: Mapping[str, Any]


class Ready(NamedTuple):
    """The message that all servers are ready."""

    config: dict[str, Any]
    """The configuration with every address."""
    token: str
    head_url: str


async def host(order: Order, fork_server: ForkServer, began: float, channel: socket.socket) -> None:
    """Run the gym until the channel is closed, the parent has ended, or a stop signal arrives."""

    async def send_ready(gym: RunningGym) -> None:
        messages.send(channel, Ready(gym.config, gym.token, gym.head_url))
        await asyncio.Event().wait()

    reporter = Reporter(lambda: sys.stderr)
    with stop_signals() as stop:
        watching = asyncio.create_task(wait_until_parent_ends(channel))
        watching.add_done_callback(lambda _: stop.set())
        try:
            await serve(
                order.config,
                reporter,
                stop,
                began=began,
                fork_server=fork_server,
                while_up=send_ready,
                placement=order.placement,
            )
        finally:
            watching.cancel()


def main(channel: socket.socket, fork_server: ForkServer) -> None:
    """Answer a request for an inspection, then host the gym whose order arrives on the channel."""
    began = time.monotonic()
    try:
        if (order := _receive_order(channel, fork_server)) is not None:
            asyncio.run(host(order, fork_server, began, channel))
    except GymError as error:
        messages.send(channel, error.failure)
        sys.exit(1)


def _receive_order(channel: socket.socket, fork_server: ForkServer) -> Order | None:
    """Return the order, or None if the embedding program rejected the configuration."""
    try:
        while isinstance(message := messages.receive(channel), InspectionRequest):
            messages.send(channel, inspect(fork_server, *message))
    except EOFError:
        return None
    order: Order = message
    return order
