"""How the servers of a running gym are right now: do they answer, what do they count, what do they weigh."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nemo_gym.failures import TransportError
from nemo_gym.launch.records import GymRecord, ServerRecord
from nemo_gym.transport import Call, call_once


@dataclass(frozen=True, slots=True)
class Figures:
    """The counts of a server since its start."""

    requests: int
    errors: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class Observation:
    """One server as it is now."""

    server: ServerRecord
    answers: bool
    figures: Figures | None
    """None where the server has no route that tells them."""
    memory_bytes: int | None
    """What it adds to the machine's memory; pages it shares with other processes count by their share."""

    @property
    def state(self) -> str:
        """The launcher's word, except that a server it holds for ready may not answer."""
        return "silent" if self.server.state == "ready" and not self.answers else self.server.state

    def to_json(self) -> dict[str, Any]:
        figures = asdict(self.figures) if self.figures is not None else None
        facts = {"state": self.state, "answers": self.answers, "figures": figures}
        return {**asdict(self.server), **facts, "memory_bytes": self.memory_bytes}


async def observe(gym: GymRecord, *, timeout_s: float) -> Sequence[Observation]:
    """Ask every server of `gym` at once; one that does not answer within `timeout_s` counts as silent."""
    return await asyncio.gather(
        *(_observe_server(server, gym.run.token, timeout_s) for server in gym.servers)
    )


async def _observe_server(server: ServerRecord, token: str, timeout_s: float) -> Observation:
    figures = await get_figures(server.url, token, timeout_s=timeout_s)
    is_up = figures is not None or await answers(server.url, timeout_s=timeout_s)
    return Observation(server, is_up, figures, memory_bytes(server.pid))


async def answers(url: str, *, timeout_s: float) -> bool:
    """Whether the server at `url` answers, and not with a server error.

    Any other status will do: a server of an author's own making may lack the route `/`.
    """
    try:
        return (await call_once(url, Call("GET", "/"), timeout_s=timeout_s)).status < 500
    except TransportError:
        return False


async def get_figures(url: str, token: str, *, timeout_s: float) -> Figures | None:
    """The figures of the server at `url`, or None where it gives none."""
    try:
        call = Call("GET", "/_ng/stats", headers={"x-ng-token": token})
        answer = await call_once(url, call, timeout_s=timeout_s)
    except TransportError:
        return None  # down or busy: the state says which
    if answer.status != 200:
        return None  # a server of an author's own making, without the route
    try:
        counts = json.loads(answer.body)
        return Figures(int(counts["requests"]), int(counts["errors"]), int(counts["in_flight"]))
    except (ValueError, KeyError, TypeError):
        return None  # its own route of the same path


def memory_bytes(pid: int | None) -> int | None:
    """The proportional memory of process `pid`; None where it is gone or may not be seen."""
    if pid is None:
        return None
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return _resident_bytes(pid)  # not Linux, or gone
    return None


def _resident_bytes(pid: int) -> int | None:
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return None
