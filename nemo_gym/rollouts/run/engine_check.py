"""The check of engines before the servers of a run start.

A model server checks its engine by itself when it runs (`GET /preflight`). This check is for mistakes on the command
line, such as a URL without `/v1` or another model's name, which should end a command before anything starts. It asks
the engines of `vllm_model`, and leaves slow ones to the model server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from nemo_gym.config.problems import ConfigErrors, Problem
from nemo_gym.engines.engine import UpstreamEngine
from nemo_gym.failures import Failure, GymError
from nemo_gym.json_objects import member
from nemo_gym.rollouts.run.required_servers import MODEL_TYPE
from nemo_gym.transport import HttpTransport, Transport

_CHECKED = "vllm_model"
_SLOW = frozenset({"engine_silent"})


async def check_engines(servers: Mapping[str, Mapping[str, Any]], transport: Transport | None = None) -> None:
    """Raise `ConfigErrors` with the problems of the engines behind `servers`, by name."""
    own = transport or HttpTransport()
    try:
        failures = await asyncio.gather(*(_failure(block, own) for block in _blocks(servers)))
    finally:
        if transport is None:
            await own.close()
    problems = [
        Problem(None, failure.message, failure.remedy)
        for failure in failures
        if failure is not None and failure.code not in _SLOW
    ]
    if problems:
        raise ConfigErrors(list(dict.fromkeys(problems)))


def _blocks(servers: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for server in servers.values():
        block = member(server, MODEL_TYPE, _CHECKED)
        if isinstance(block, Mapping) and block.get("base_url") and not block.get("endpoint_file"):
            yield block


async def _failure(block: Mapping[str, Any], transport: Transport) -> Failure | None:
    engine = UpstreamEngine(
        block["base_url"],
        api_key=block.get("api_key"),
        headers=block.get("default_headers"),
        transport=transport,
    )
    try:
        await engine.preflight(block.get("model"))
    except GymError as error:
        return error.failure
    return None
