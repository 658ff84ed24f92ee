"""The current state of a running gym's servers: readiness, counters, memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from nemo_gym.config.keys import DEFAULT_HOST
from nemo_gym.failures import TransportError
from nemo_gym.launch.records import GymRecord, NodeRecord, Registry, RunRecord, ServerRecord
from nemo_gym.names import DEFAULT_HEAD_SERVER_PORT
from nemo_gym.transport import Call, call_once

_DEFAULT_PORT_ANSWERS_S = 1.0


class ToolFigures(NamedTuple):
    """The calls of one tool, or of the verifier, since the start of its server."""

    calls: int
    errors: int
    """Calls answered with a status from 400: by the fault of the tool or of its arguments."""
    cause: str | None = None
    """Of the last error."""
    place: str | None = None
    """`file:line` of the author's code that raised it, if it is known."""
    seconds: float = 0.0
    """Of all calls together."""

    @property
    def mean_seconds(self) -> float:
        return self.seconds / self.calls if self.calls else 0.0

    @classmethod
    def read(cls, counts: Mapping[str, Any]) -> ToolFigures:
        """Return the figures in the answer of a server."""
        return cls(
            int(counts["calls"]),
            int(counts["errors"]),
            counts.get("cause"),
            counts.get("place"),
            float(counts.get("seconds", 0.0)),
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """The counters of a server since its start."""

    requests: int
    errors: int
    in_flight: int
    tools: Mapping[str, ToolFigures] = field(default_factory=dict)
    """By name, of a resources server."""
    verify: ToolFigures | None = None
    """The calls of its verifier, of a resources server that was asked."""
    seconds: float = 0.0
    """From each request to its answer, of all requests together."""

    @property
    def mean_seconds(self) -> float | None:
        """Return the mean seconds of an answered request; None without one."""
        answered = self.requests - self.in_flight
        return self.seconds / answered if answered > 0 else None


@dataclass(frozen=True, slots=True)
class Observation:
    """The current state of one server."""

    server: ServerRecord
    answers: bool
    figures: Figures | None
    """None if the server has no route for them."""
    memory_bytes: int | None
    """Proportional set size: shared pages are divided among their processes."""

    @property
    def state(self) -> str:
        """The launcher's state, or `silent` for a ready server that does not answer."""
        return "silent" if self.server.state == "ready" and not self.answers else self.server.state

    def to_json(self) -> dict[str, Any]:
        facts = asdict(self)
        if self.figures is not None:
            tools = {name: each._asdict() for name, each in facts["figures"].pop("tools").items()}
            facts["figures"] |= {"tools": tools} if tools else {}
            if (verify := facts["figures"].pop("verify")) is not None:
                facts["figures"]["verify"] = verify._asdict()
        return {**facts.pop("server"), **facts, "state": self.state}


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """The current state of one machine of a gym, and the sums of its servers."""

    node: NodeRecord
    replicas: int
    in_flight: int
    """Requests that its servers handle now."""
    restarts: int

    def to_json(self) -> dict[str, Any]:
        sums = asdict(self)
        return {**sums.pop("node"), **sums}


def sum_by_node(gym: GymRecord, observations: Sequence[Observation]) -> list[NodeObservation]:
    """Return the machines of `gym` with the sums of their servers; none if it runs on the launcher's."""
    found = []
    for node in gym.nodes:
        there = [each for each in observations if each.server.node == node.name]
        in_flight = sum(each.figures.in_flight for each in there if each.figures is not None)
        restarts = sum(each.server.restarts for each in there)
        found.append(NodeObservation(node, len(there), in_flight, restarts))
    return found


async def describe_running_gyms() -> list[str]:
    """Return a sentence on each running gym of this user, and on a server at the default port that is of none."""
    gyms = Registry().list_running()
    described = [
        f"the gym of pid {gym.run.pid} in {gym.directory} listens at {gym.run.head}; it is not used"
        for gym in gyms
    ]
    default = f"http://{DEFAULT_HOST}:{DEFAULT_HEAD_SERVER_PORT}"
    is_known = any(gym.run.head.rpartition(":")[2] == str(DEFAULT_HEAD_SERVER_PORT) for gym in gyms)
    if not is_known and await answers(default, timeout_s=_DEFAULT_PORT_ANSWERS_S):
        described.append(f"a server that is of no gym of this user answers at {default}; it is not used")
    return described


async def observe(gym: GymRecord, *, timeout_s: float) -> Sequence[Observation]:
    """Probe every server of `gym` concurrently; one without an answer within `timeout_s` is silent."""
    return await asyncio.gather(*(_observe_server(server, gym.run, timeout_s) for server in gym.servers))


async def _observe_server(server: ServerRecord, run: RunRecord, timeout_s: float) -> Observation:
    figures = await get_figures(server.url, run.token, ca=run.ca, timeout_s=timeout_s)
    is_up = figures is not None or await answers(server.url, ca=run.ca, timeout_s=timeout_s)
    pid = None if server.node else server.pid  # a pid of another machine
    return Observation(server, is_up, figures, memory_bytes(pid))


async def answers(url: str, *, ca: str | None = None, timeout_s: float) -> bool:
    """Return whether the server at `url` answers with a status below 500. `ca`: as for `call_once`.

    A custom server may lack the route `/`, so 404 is fine.
    """
    try:
        return (await call_once(url, Call("GET", "/"), ca=ca, timeout_s=timeout_s)).status < 500
    except TransportError:
        return False


async def get_figures(url: str, token: str, *, ca: str | None = None, timeout_s: float) -> Figures | None:
    """The counters of the server at `url`; None if it provides none. `ca`: as for `call_once`."""
    try:
        call = Call("GET", "/_ng/stats", headers={"x-ng-token": token})
        answer = await call_once(url, call, ca=ca, timeout_s=timeout_s)
    except TransportError:
        return None  # down or busy: `state` shows which
    if answer.status != 200:
        return None  # a custom server without the route
    try:
        counts = json.loads(answer.body)
        tools = {name: ToolFigures.read(figures) for name, figures in counts.get("tools", {}).items()}
        verify = ToolFigures.read(counts["verify"]) if "verify" in counts else None
        requests, errors, in_flight = (int(counts[name]) for name in ("requests", "errors", "in_flight"))
        return Figures(requests, errors, in_flight, tools, verify, float(counts.get("seconds", 0.0)))
    except (AttributeError, ValueError, KeyError, TypeError):
        return None  # a custom route of the same path


def memory_bytes(pid: int | None) -> int | None:
    """The proportional memory of process `pid`; None if it has ended or cannot be read."""
    import psutil

    try:
        memory = psutil.Process(pid).memory_full_info() if pid is not None else None
    except psutil.Error:
        return None
    return int(getattr(memory, "pss", memory.rss)) if memory is not None else None  # only Linux has pss
