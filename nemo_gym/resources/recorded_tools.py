"""The layer of a resources server that records the tool calls of durable attempts, and gives recorded results again.

With `replay: recorded`, an attempt that continues or forks another one gets the result that the other one got for the
same call, and the tool is not executed. With `replay: snapshot`, this holds up to the last call after which the state
of the session was kept in a snapshot. `seed_session` begins with that state, and later calls are executed again. A call
that the record does not have is always executed.

A line of a record is a call with its result, written before the result goes out. Equal calls are given again in their
recorded order.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from nemo_gym import clock
from nemo_gym.json_objects import parse_json
from nemo_gym.resources.mcp_tools import is_tool_path
from nemo_gym.serving.durable.lines import RecordFile
from nemo_gym.serving.durable.plans import ReplayPlan, read_plan
from nemo_gym.serving.durable.runs import Durability, DurableRun, find_attempt
from nemo_gym.serving.durable.tool_lines import SUFFIX, Line, read_tool_lines
from nemo_gym.transport.calls import Reply
from nemo_gym.transport.context import current_context
from nemo_gym.transport.memory import collect_reply
from nemo_gym.transport.request_body import WholeBody
from nemo_gym.transport.whole_response import send_reply, send_response

if TYPE_CHECKING:
    from nemo_gym.resources.server import SimpleResourcesServer

log = logging.getLogger(__name__)

_SNAPSHOT: Final = ".snapshot"
_TYPE: Final = "content-type"


@dataclass(slots=True)
class ToolSession:
    """The session of a durable attempt."""

    run: DurableRun
    file: RecordFile
    left: defaultdict[tuple[str, str], deque[Line]] = field(default_factory=lambda: defaultdict(deque))
    """By path and arguments, the recorded calls that are not given yet."""
    begins_from: Path | None = None
    """The snapshot that it begins with."""
    unkept_s: float = 0.0
    """Seconds of the calls since the last snapshot."""
    snapshots: int = 0
    is_recorded: bool = True
    """False after a line could not be written."""


class RecordedTools:
    """A layer of the app (`GymApp.layers`)."""

    def __init__(self, server: SimpleResourcesServer, process: str) -> None:
        """`process` names this process among those of the server."""
        self.runs: dict[str, DurableRun] = {}
        self._server = server
        self._process = process
        self._sessions: dict[str, ToolSession] = {}

    async def __call__(self, handler: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        context, path = current_context.get(), scope["path"]
        session = await self._find(context.session) if context is not None else None
        if context is None or session is None:
            await handler(scope, receive, send)
        elif path == "/close_session":
            self._close(context.session)
            await handler(scope, receive, send)
        elif scope["method"] == "POST" and is_tool_path(path) and isinstance(receive, WholeBody):
            await self._answer(context.session, session, handler, scope, receive, send)
        else:
            await handler(scope, receive, send)

    def find_snapshot(self, session: str) -> Path | None:
        """Return the snapshot with which a session begins; None for one that begins as its task says."""
        found = self._sessions.get(session)
        return found.begins_from if found is not None else None

    def forget(self, run: str) -> None:
        """Forget a run that has ended."""
        self.runs.pop(run, None)
        for name in [name for name, session in self._sessions.items() if session.run.run == run]:
            self._close(name)

    def _close(self, name: str) -> None:
        session = self._sessions.pop(name, None)
        if session is not None:
            session.file.close()

    async def _find(self, name: str) -> ToolSession | None:
        """Return the state of the session of a durable attempt; None for another session."""
        known = self._sessions.get(name)
        if known is not None:
            return known
        found = find_attempt(name, self.runs)
        if found is None:
            return None
        session = ToolSession(found.run, RecordFile(found.folder, self._process, SUFFIX))
        plan = await asyncio.to_thread(read_plan, Path(found.folder))
        if plan is not None:
            await asyncio.to_thread(self._read_calls, session, plan)
        return self._sessions.setdefault(name, session)

    def _read_calls(self, session: ToolSession, plan: ReplayPlan) -> None:
        """Read the calls whose results are given again."""
        lines = [line for line in read_tool_lines(plan.source) if line["server"] == self._server.config.name]
        until = plan.tools_until
        lines = [line for line in lines if until is None or line["ended_at"] <= until]
        if self._server.config.replay == "snapshot":
            kept = [at for at, line in enumerate(lines) if (plan.source / line.get("snapshot", "")).is_file()]
            lines = lines[: kept[-1] + 1] if kept else []
            session.begins_from = plan.source / lines[-1]["snapshot"] if lines else None
        for line in lines:
            session.left[line["path"], line["arguments"]].append({**line, "source": plan.source})

    async def _answer(
        self,
        name: str,
        session: ToolSession,
        handler: ASGIApp,
        scope: Scope,
        receive: WholeBody,
        send: Send,
    ) -> None:
        call = scope["path"], _write_arguments(receive.body)
        recorded = session.left[call].popleft() if session.left.get(call) else None
        if recorded is not None:
            line = self._take_over(session, recorded)
            await self._append(session, {**line, "given": True, "ended_at": clock.wall_clock()})
            headers = [(_TYPE.encode(), line["type"].encode("latin-1"))]
            await send_response(send, line["status"], headers, _read_body(line))
            return
        began = clock.monotonic()
        reply = await collect_reply(handler, scope, receive)
        session.unkept_s += clock.monotonic() - began
        if reply.status < 500:  # another status is no result of the tool
            line = {"server": self._server.config.name, "path": call[0], "arguments": call[1]}
            line |= {"ended_at": clock.wall_clock(), **_describe_reply(reply)}
            await self._append(session, line | await self._keep_state(name, session))
        await send_reply(send, reply)

    async def _keep_state(self, name: str, session: ToolSession) -> Line:
        """Take a snapshot if the calls since the last one took long enough. Returns its name for the call's line."""
        config = self._server.config
        is_due = config.replay == "snapshot" and session.unkept_s >= config.snapshot_after_s
        if not is_due or not session.is_recorded:
            return {}
        path = session.file.path.with_suffix(f".{session.snapshots}{_SNAPSHOT}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            is_kept = await self._server.snapshot_session(name, path)
        except OSError as error:
            log.warning("no snapshot of attempt %s could be taken: %s", name, error)
            is_kept = False
        if not is_kept:
            path.unlink(missing_ok=True)
            return {}
        session.snapshots, session.unkept_s = session.snapshots + 1, 0.0
        return {"snapshot": path.name}

    def _take_over(self, session: ToolSession, recorded: Line) -> Line:
        """Return the line of a recorded call in this attempt, with a name of its own for the snapshot after it."""
        line = dict(recorded)
        source, snapshot = line.pop("source"), line.pop("snapshot", None)
        if snapshot is not None:
            path = session.file.path.with_suffix(f".{session.snapshots}{_SNAPSHOT}")
            try:
                os.link(source / snapshot, path)
            except OSError:  # the snapshot is gone: the calls up to it are executed again
                return line
            session.snapshots += 1
            line["snapshot"] = path.name
        return line

    async def _append(self, session: ToolSession, line: Line) -> None:
        """Append a line. After one that cannot be written, the session is not recorded any more."""
        if not session.is_recorded:
            return
        try:
            session.file.append(line)
            if session.run.durability is Durability.NODE:
                await asyncio.to_thread(session.file.flush)
        except OSError as error:
            session.is_recorded = False
            why = error.strerror or error
            log.warning("tools are recorded no more: %s cannot be written (%s)", session.file.path, why)


def _write_arguments(body: bytes) -> str:
    """Return the body of a call in one spelling, if it is JSON."""
    try:
        return json.dumps(parse_json(body), sort_keys=True)
    except ValueError:
        return body.decode("latin-1")


def _describe_reply(reply: Reply) -> Line:
    about = {"status": reply.status, "type": reply.headers.get(_TYPE, "application/json")}
    try:
        return {**about, "text": reply.body.decode()}
    except UnicodeDecodeError:
        return {**about, "base64": base64.b64encode(reply.body).decode()}


def _read_body(line: Line) -> bytes:
    return line["text"].encode() if "text" in line else base64.b64decode(line["base64"])
