"""`nodes.json` in a gym's log folder: its machines and replicas as they are now, and what has happened to them.

The viewer reads it, and a collection keeps it with its run. It is JSON that is replaced whole. Times are seconds since
1970:

- `at`, `ended_at`: when it was written, and when the gym ended (null before that);
- `nodes`: the fields of `NodeFacts`; `replicas`: those of `ReplicaFacts`;
- `events`: those of `NodeEvent`, oldest first, and `left_out`: the number of older ones that are no longer there.

Events are the differences between the records that `ng_status` reads. So nothing that places or restarts a replica has
to report it twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Protocol, TypeAlias

from nemo_gym.clock import log_time, wall_clock
from nemo_gym.launch.observation import Figures, get_figures
from nemo_gym.launch.records import GymRecord, NodeRecord, ServerRecord, write_private

ReplicaName: TypeAlias = tuple[str, int]
"""The server and the number of a replica."""
_MOST_EVENTS = 1000
_WRITE_AFTER_S = 0.2
"""Seconds in which several changes become one write."""
_LOOK_EVERY_S = 5.0
_LOOK_A_REPLICA_S = 0.1
"""Seconds between two looks at the requests in flight, at least this for each replica: a large gym costs no more."""
_ANSWER_WITHIN_S = 3.0
_NOT_PLACED = ("preparing", "crashed")
"""States of a replica whose process is still that of its last place, or none."""


class Ask(Protocol):
    """Returns the counters of the server at `url`; None if it does not answer. `get_figures` is one."""

    async def __call__(self, url: str, token: str, *, ca: str | None, timeout_s: float) -> Figures | None: ...


class EventKind(StrEnum):
    """The kind of the event."""

    UP = "up"
    LOST = "lost"
    BACK = "back"
    MOVED = "moved"
    RESTARTED = "restarted"
    SCALED = "scaled"


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Something that has happened to a machine or a replica."""

    at: float
    kind: EventKind
    text: str
    node: str | None = None
    """The machine; after a move the new one."""
    replicas: tuple[ReplicaName, ...] = ()
    """Those that moved, restarted, were lost with the machine, or were removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts(NodeRecord):
    """A machine, and the sums of its replicas. `log` is the name of its log in the log folder."""

    replicas: dict[str, int]
    """Server → the number of its replicas here."""
    in_flight: int
    most_in_flight: int
    """The most requests that were in flight at any look."""
    restarts: int
    generation: int
    """The highest generation of its replicas; 0 without one."""


@dataclass(frozen=True, slots=True)
class ReplicaFacts:
    """A replica and its place."""

    server: str
    replica: int
    node: str
    state: str
    generation: int
    restarts: int
    log: str


@dataclass(slots=True)
class NodeHistory:
    """Keeps the file of a running gym current."""

    path: Path
    record: Callable[[], GymRecord]
    """Returns the current state of the gym."""
    announce: Callable[[str], None]
    ask: Ask = get_figures
    """Returns the counters of a replica."""
    look_every_s: float = _LOOK_EVERY_S
    _events: deque[NodeEvent] = field(default_factory=lambda: deque(maxlen=_MOST_EVENTS))
    _left_out: int = 0
    _nodes: dict[str, NodeRecord] = field(default_factory=dict)
    _placed: dict[ReplicaName, ServerRecord] = field(default_factory=dict)
    _in_flight: Counter[str] = field(default_factory=Counter)
    _most_in_flight: Counter[str] = field(default_factory=Counter)
    _looking: asyncio.Task[None] | None = None
    _writing: asyncio.TimerHandle | None = None
    _is_broken: bool = False
    _is_closed: bool = False

    def begin(self) -> None:
        """Look at the requests in flight from now on."""
        self._looking = asyncio.create_task(self._look(), name="look at the nodes")

    def note(self, record: GymRecord) -> None:
        """Note the differences to the last record, and write the file soon. After `close` nothing is noted."""
        if self._is_closed:
            return
        for event in (*self._record_node_changes(record), *self._record_replica_changes(record)):
            self._add(event)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().call_later(_WRITE_AFTER_S, self._write)

    def note_scaled(self, server: str, before: int, after: int, lost_sessions: int) -> None:
        """Note that a server has another number of replicas."""
        if before == after:
            return
        lost = f"; {lost_sessions} sessions did not end in time" if lost_sessions else ""
        removed = tuple((server, number) for number in range(after, before))
        text = f"{server} has {after} replicas instead of {before}{lost}"
        self._add(NodeEvent(wall_clock(), EventKind.SCALED, text, replicas=removed))
        self.note(self.record())

    async def close(self) -> None:
        """Write the file for the last time."""
        self._is_closed = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        self._write(ended_at=wall_clock())

    def _record_node_changes(self, record: GymRecord) -> Iterator[NodeEvent]:
        for node in record.nodes:
            before = self._nodes.get(node.name)
            losses = before.losses if before is not None else 0
            if node.losses > losses:
                there = tuple(key for key, each in self._placed.items() if each.node == node.name)
                text = f"the node {node.name} was lost{_list_replicas(there)}"
                yield NodeEvent(wall_clock(), EventKind.LOST, text, node.name, there)
            if node.state == "up" and (before is None or before.state != "up" or node.losses > losses):
                kind, again = (EventKind.BACK, " again") if node.losses else (EventKind.UP, "")
                yield NodeEvent(wall_clock(), kind, f"the node {node.name} is up{again}", node.name)
            self._nodes[node.name] = node

    def _record_replica_changes(self, record: GymRecord) -> Iterator[NodeEvent]:
        present = {(each.name, each.replica): each for each in record.servers if each.node}
        for key in self._placed.keys() - present.keys():
            del self._placed[key]
        for key, now in present.items():
            before = self._placed.get(key)
            if now.state in _NOT_PLACED:
                if before is not None:
                    self._placed[key] = replace(before, state=now.state)
                continue
            self._placed[key] = now
            if before is None:
                continue
            name = f"{now.name} #{now.replica}"
            if now.generation != before.generation:
                there = f"is on {now.node} again" if now.node == before.node else f"moved to {now.node}"
                text = f"{name} {there}, from {before.node}; its generation is {now.generation}"
                yield NodeEvent(wall_clock(), EventKind.MOVED, text, now.node, (key,))
            elif now.restarts > before.restarts:
                text = f"{name} was restarted on {now.node}"
                yield NodeEvent(wall_clock(), EventKind.RESTARTED, text, now.node, (key,))

    def _add(self, event: NodeEvent) -> None:
        self._left_out += len(self._events) == _MOST_EVENTS
        self._events.append(event)
        node = self._nodes.get(event.node or "")
        if node is not None and node.log:
            with self._told(), Path(node.log).open("a", encoding="utf-8") as file:
                file.write(f"{log_time(event.at)} INFO launcher: {event.text}\n")

    async def _look(self) -> None:
        while True:
            replicas = [each for each in self.record().servers if each.node]
            await asyncio.sleep(max(self.look_every_s, _LOOK_A_REPLICA_S * len(replicas)))
            record = self.record()
            run = record.run
            replicas = [each for each in record.servers if each.node and each.state == "ready"]
            asked = (
                self.ask(each.url, run.token, ca=run.ca, timeout_s=_ANSWER_WITHIN_S) for each in replicas
            )
            found = zip(replicas, await asyncio.gather(*asked), strict=True)
            self._in_flight = Counter()
            for replica, figures in found:
                self._in_flight[replica.node] += figures.in_flight if figures is not None else 0
            self._most_in_flight |= self._in_flight
            self.note(record)

    def _write(self, ended_at: float | None = None) -> None:
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        document = {
            "at": wall_clock(),
            "ended_at": ended_at,
            "nodes": [asdict(self._collect_facts(node)) for node in self._nodes.values()],
            "replicas": [asdict(_replica_facts(each)) for _, each in sorted(self._placed.items())],
            "events": [asdict(event) for event in self._events],
            "left_out": self._left_out,
        }
        with self._told():
            write_private(self.path, json.dumps(document))

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Tell the user, once, that a file cannot be written. The run does not depend on it."""
        try:
            yield
        except OSError as error:
            if not self._is_broken:
                self.announce(
                    f"{error.filename} cannot be written: {error.strerror}; the viewer lacks the nodes"
                )
            self._is_broken = True

    def _collect_facts(self, node: NodeRecord) -> NodeFacts:
        there = (
            [each for each in self._placed.values() if each.node == node.name] if node.state == "up" else []
        )
        return NodeFacts(
            **asdict(node) | {"log": Path(node.log).name},
            replicas=dict(Counter(each.name for each in there)),
            in_flight=self._in_flight[node.name],
            most_in_flight=self._most_in_flight[node.name],
            restarts=sum(each.restarts for each in there),
            generation=max((each.generation for each in there), default=0),
        )


def _list_replicas(replicas: tuple[ReplicaName, ...]) -> str:
    return f", with {', '.join(f'{server} #{number}' for server, number in replicas)}" if replicas else ""


def _replica_facts(server: ServerRecord) -> ReplicaFacts:
    return ReplicaFacts(
        server.name,
        server.replica,
        server.node,
        server.state,
        server.generation,
        server.restarts,
        Path(server.log).name,
    )
