"""Requests of the head server to the launcher, which is another process of the same machine.

They go to the launcher's control port. Its address is in the directory, which the launcher keeps in a file.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from nemo_gym.failures import ConfigError, Failure, TransportError, build_error


async def ask_launcher(address: str, token: str | None, request: Mapping[str, Any]) -> Any:
    """Return the launcher's answer, which may take long.

    `address`: `host:port`. Raises `ConfigError` for a request that is refused (HTTP 409) or fails (500), and
    `TransportError` if the launcher is gone.
    """
    host, _, port = address.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(json.dumps({**request, "token": token}).encode() + b"\n")
            answer = json.loads(await reader.read())
        finally:
            writer.close()
    except (OSError, ValueError) as error:
        raise TransportError(
            f"the command that started the gym does not answer: {error}", code="launcher_gone", peer=address
        ) from error
    failure = Failure.from_wire(answer.get("failure"))
    if failure is None:
        return answer["value"]
    status = HTTPStatus.CONFLICT if answer["is_refused"] else HTTPStatus.INTERNAL_SERVER_ERROR
    raise build_error(replace(failure, status=status))


def not_scalable() -> ConfigError:
    """Return the refusal of a gym whose replicas are fixed."""
    return ConfigError(
        "this gym runs on one machine, where the replicas of a server are fixed when it starts",
        code="not_scalable",
        status=HTTPStatus.CONFLICT,
        remedy="Start it with +placement=hosts or +placement=ray, or with another num_workers of the server.",
    )
