"""Sessions per second of an environment that keeps state in memory and computes, by the number of its replicas.

There are a thousand concurrent sessions. Each is opened with its own count, increments it three times, reads it, and is
closed. A session that reached a replica without its state would be refused or read a wrong count. The tool uses 2 ms of
CPU, so that the server is the bottleneck and not the client, which has its own process on the same cores. With as many
replicas as cores, `of_one_replica` is therefore slightly less than their number.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson
from pydantic import Field

from nemo_gym.cli.command import Keys
from nemo_gym.rollouts.run.discovery import find_gym
from nemo_gym.transport import Caller
from nemo_gym.transport.context import SESSION_HEADER
from perf import busy_counter
from perf.measure import Figures, in_fast_loop, medians
from perf.running_gym import running_gym

NAME = "busy_counter"
_STEPS = 3


class BenchKeys(Keys):
    replicas: list[int] = Field([1, 2, 4], description="Numbers of replicas.")
    sessions: int = Field(1_000, ge=1, description="Concurrent sessions.")


def run(runs: int, keys: BenchKeys) -> Figures:
    """Return, by number of replicas, sessions per second and the sessions that another replica served."""
    measured = {
        number: medians([_measured(number, keys.sessions) for _ in range(runs)]) for number in keys.replicas
    }
    one = measured[min(measured)]["sessions_per_s"]
    return {
        f"{number} replica{'s' if number > 1 else ''}": {
            **figures,
            "of_one_replica": figures["sessions_per_s"] / one,
        }
        for number, figures in measured.items()
    }


def _measured(replicas: int, sessions: int) -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "resources_servers" / NAME
        environment.mkdir(parents=True)
        shutil.copy(busy_counter.__file__, environment / "app.py")
        block = f"++{NAME}.resources_servers.{NAME}"
        overrides = [f"{block}.entrypoint=app.py", f"{block}.domain=other", f"{block}.num_workers={replicas}"]
        with running_gym(overrides, folder):
            return in_fast_loop(_played(folder, sessions))


async def _played(folder: str, sessions: int) -> Figures:
    gym = await find_gym(Path(folder))
    caller = gym.caller()
    try:
        await _play(caller, "to have connections", 0)
        began = time.perf_counter()
        plays = [_play(caller, f"session-{number}", number) for number in range(sessions)]
        counts = await asyncio.gather(*plays)
        seconds = time.perf_counter() - began
    finally:
        await caller.transport.close()
    strange = sum(count != number + _STEPS for number, count in enumerate(counts))
    return {"sessions_per_s": sessions / seconds, "sessions": sessions, "saw_another_replica": strange}


async def _play(caller: Caller, session: str, count: int) -> int | None:
    """Play a session. Return its final count, or None if a call is refused."""

    async def post(path: str, body: bytes = b"{}") -> Any:
        headers = {SESSION_HEADER: session}
        reply = await caller.call(NAME, "POST", path, body=body, headers=headers, session=session)
        return reply.json() if reply.ok else None

    opening = {"responses_create_params": {"input": []}, "initial_count": count}
    answers = [await post("/seed_session", orjson.dumps(opening))]
    answers += [await post("/increment_counter", b'{"count": 1}') for _ in range(_STEPS)]
    seen = await post("/get_counter_value")
    answers += [seen, await post("/close_session")]
    return None if None in answers else seen["count"]
