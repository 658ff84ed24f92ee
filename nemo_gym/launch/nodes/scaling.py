"""Replicas that are added and removed while a gym runs.

An added replica takes sessions when it has answered. A replica to be removed gets no new sessions, finishes those that
it has, within a bound, and then ends. Sessions stay where they are, so that only the share of later sessions moves that
rendezvous hashing gives to another replica.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, NamedTuple

from nemo_gym.config.problems import ConfigErrors, Problem, did_you_mean
from nemo_gym.failures import TransportError
from nemo_gym.launch._states import TERMINAL_STATES, ServerState
from nemo_gym.launch._supervisor import SupervisedServer, Supervisor
from nemo_gym.launch.nodes.moving import Moving
from nemo_gym.launch.nodes.replicas import Replica, Replicas
from nemo_gym.names import HEAD_SERVER, SESSIONS_ROUTE, TOKEN_HEADER
from nemo_gym.transport import Call, call_once
from nemo_gym.transport.directory import choose_home, list_aliases

Plan = Callable[[Sequence[Replica]], list[SupervisedServer]]
"""Returns the processes of replicas of one server."""
_SHOWN_SESSIONS = 10


class CountChange(NamedTuple):
    """The number of replicas of a server, before and after."""

    server: str
    before: int
    after: int


@dataclass(slots=True)
class Scaling:
    """Carries out the requests of `POST /_ng/scale`."""

    replicas: Replicas
    moving: Moving
    supervisor: Supervisor
    plan: Plan
    announce: Callable[[str], None]
    on_removal: Callable[[], object]
    """Called when replicas have been removed."""
    token: str = field(repr=False)
    """The run's, with which servers answer the names of their sessions."""
    _changing: set[str] = field(default_factory=set)

    async def handle(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Scale servers. Raises `ConfigErrors` for a request that cannot be met, before anything changes."""
        changes = self._check_changes(request["servers"])
        self._changing |= {change.server for change in changes}
        try:
            added = await self._hold(changes)
            work = [
                self._grow(change, added[change.server])
                if change.server in added
                else self._shrink(change, float(request["drain_timeout_s"]))
                for change in changes
            ]
            outcomes = await asyncio.gather(*work, return_exceptions=True)
        finally:
            self._changing -= {change.server for change in changes}
        servers: dict[str, dict[str, Any]] = {}
        for change, lost in zip(changes, outcomes, strict=True):
            if isinstance(lost, BaseException):
                raise lost
            servers[change.server] = {"before": change.before, "after": change.after, "lost_sessions": lost}
        return {"version": self.replicas.directory["version"], "servers": servers}

    def _check_changes(self, wanted: Mapping[str, int]) -> list[CountChange]:
        """Return the changes. Raises `ConfigErrors` for all servers and numbers that are wrong."""
        servers = self.replicas.directory["servers"]
        aliases = dict(list_aliases(self.replicas.config))
        known = [name for name in servers if name not in aliases]
        problems = [] if wanted else [Problem(None, "no server is named.", "Name one: NAME=REPLICAS.")]
        for name, count in wanted.items():
            if name == HEAD_SERVER:
                problems.append(Problem(None, f"{name} always has one process.", None))
            elif name in aliases:
                agent = aliases[name]
                problems.append(Problem(None, f"{name} is a second name of {agent}.", f"Scale {agent}."))
            elif name not in known:
                hint = did_you_mean(name, known) or f"Servers: {', '.join(known)}."
                problems.append(Problem(None, f"no server is named {name}.", hint))
            elif count < 1:
                problems.append(Problem(None, f"{name}: {count} replicas.", "A server has at least 1."))
            elif name in self._changing:
                problems.append(Problem(None, f"{name} is being scaled.", "Wait until that has ended."))
        if problems:
            raise ConfigErrors(problems)
        return [CountChange(name, len(servers[name]), count) for name, count in wanted.items()]

    async def _hold(self, changes: Sequence[CountChange]) -> dict[str, list[Replica]]:
        """Hold sockets for all replicas to be added. Raises as `Moving.move_in`."""
        added: dict[str, list[Replica]] = {}
        try:
            for change in changes:
                if change.after > change.before:
                    added[change.server] = self.replicas.add(change.server, change.after - change.before)
                    await self.moving.move_in(added[change.server])
        except BaseException:
            for replicas in added.values():
                await self._give_up(replicas)
            raise
        return added

    async def _grow(self, change: CountChange, added: Sequence[Replica]) -> list[str]:
        """Start replicas, and publish them when all have answered."""
        try:
            await self.supervisor.add(self.plan(added))
        except BaseException:
            await self._give_up(added)
            raise
        self.replicas.publish(added)
        self.announce(f"{change.server} has {change.after} replicas instead of {change.before}")
        return []

    async def _give_up(self, added: Sequence[Replica]) -> None:
        self.replicas.retire(added)
        await self.moving.move_out(added)

    async def _shrink(self, change: CountChange, timeout_s: float) -> list[str]:
        """Remove the last replicas when they have finished their sessions. Returns the sessions that are lost."""
        server, after = change.server, change.after
        if after == change.before:
            return []
        leaving = [each for each in self.supervisor.servers if each.name == server and each.replica >= after]
        replicas = self.replicas.addresses[server][after:]
        self.replicas.drain(server, after)
        for each in leaving:
            if each.state is ServerState.READY:
                each.become(ServerState.DRAINING)
        draining = Draining(self.supervisor.servers, ask_with(self.token))
        lost = await draining.wait(leaving, change.before, after, timeout_s)
        self.replicas.retire(replicas)
        await self.supervisor.remove(leaving)
        await self.moving.move_out(replicas)
        self.on_removal()
        self.announce(
            f"{server} has {after} replicas instead of {change.before}{_describe_lost(lost, timeout_s)}"
        )
        return lost


def _describe_lost(sessions: Sequence[str], timeout_s: float) -> str:
    if not sessions:
        return ""
    shown = ", ".join(sessions[:_SHOWN_SESSIONS]) + (", …" if len(sessions) > _SHOWN_SESSIONS else "")
    return f"; {len(sessions)} sessions did not end within {timeout_s:g} s and are attempted again: {shown}"


# --- Draining ---------------------------------------------------------------------------------------------------------
# The wait until replicas that leave have finished their sessions.


LEARNT_WITHIN_S = 3.0
"""Seconds after a change of the directory in which its callers have learnt it: more than the time between two requests
for it."""
_ASK_EVERY_S = 0.5
_ANSWER_WITHIN_S = 10.0
_MODELS = "responses_api_models"


AskSessions = Callable[[SupervisedServer], Awaitable[set[str] | None]]
"""Returns the sessions that a server has; None if it does not answer."""


@dataclass(frozen=True, slots=True)
class Draining:
    """Waits until replicas have no sessions."""

    servers: Sequence[SupervisedServer]
    """All processes of the gym, kept current."""
    ask: AskSessions
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def wait(
        self, leaving: Sequence[SupervisedServer], before: int, after: int, timeout_s: float
    ) -> list[str]:
        """Wait until replicas of one server have no session any more. Returns those that they have after `timeout_s`.

        The server has `before` replicas, of which `after` stay.
        """
        give_up_at = time.monotonic() + timeout_s
        await self.sleep(min(LEARNT_WITHIN_S, timeout_s))
        rollouts: set[str] | None = None
        while True:
            own = await self._list_sessions(leaving)
            now = await self._find_rollouts(leaving, before, after)
            if now is not None:  # later rollouts are elsewhere
                rollouts = now if rollouts is None else rollouts & now
            left = (own or set()) | (rollouts or set())
            is_known = own is not None and rollouts is not None
            if (is_known and not left) or time.monotonic() >= give_up_at:
                return sorted(left)
            await self.sleep(_ASK_EVERY_S)

    async def _find_rollouts(
        self, leaving: Sequence[SupervisedServer], before: int, after: int
    ) -> set[str] | None:
        """Return the sessions of rollouts whose conversations are at a leaving model server.

        A model server has no session between two calls of a rollout, but it has the rollout's conversation. None if a
        server does not answer.
        """
        if leaving[0].kind != _MODELS:
            return set()
        others = [each for each in self.servers if each.kind not in (_MODELS, HEAD_SERVER)]
        sessions = await self._list_sessions(others)
        return sessions and {each for each in sessions if choose_home(each, before) >= after}

    async def _list_sessions(self, servers: Sequence[SupervisedServer]) -> set[str] | None:
        """Return the sessions of the servers whose processes run; None if one of them does not answer."""
        running = [each for each in servers if each.state not in TERMINAL_STATES and each.pid is not None]
        sessions: set[str] = set()
        for found in await asyncio.gather(*map(self.ask, running)):
            if found is None:
                return None
            sessions |= found
        return sessions


def ask_with(token: str) -> AskSessions:
    """Return the function that asks servers of the run with this token."""

    async def ask(server: SupervisedServer) -> set[str] | None:
        call = Call("GET", SESSIONS_ROUTE, headers={TOKEN_HEADER: token})
        try:
            reply = await call_once(server.url, call, ca=server.ca, timeout_s=_ANSWER_WITHIN_S)
        except TransportError:
            return None  # it is busy, or its process has just ended
        if reply.status == HTTPStatus.NOT_FOUND:
            return set()  # a custom server without the route
        return set(reply.json()) if reply.ok else None

    return ask
