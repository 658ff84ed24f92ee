"""Sessions of an agent that an environment server opens and closes: each is opened once and closed once.

The environment server chooses the session's id, so that it can close a session whose opening it never saw answered.
An agent that supports sessions overrides `_seed_agent_session_state` and `_close_agent_session_state`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import HTTPException, Request

from nemo_gym import clock
from nemo_gym.protocol.agent_sessions import (
    AgentCloseSessionRequest,
    AgentCloseSessionResponse,
    AgentSeedSessionRequest,
    AgentSeedSessionResponse,
    AgentSessionSetupError,
    AgentSessionState,
)
from nemo_gym.protocol.episodes import EpisodeId
from nemo_gym.protocol.tool_access import ToolAccess

log = logging.getLogger(__name__)

AGENT_SESSION_KEY = "agent_session_id"
"""The key of the session's id in `request.session`."""


@dataclass
class _AgentSessionRecord:
    """An open session. Its lock is held while it is opened or closed."""

    state: AgentSessionState | None = None
    episode_id: EpisodeId | None = None
    closing: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    response: AgentCloseSessionResponse | None = None
    closed_at: float | None = None


class AgentSessions:
    """The base of agents with sessions."""

    config: Any
    _session_records: dict[str, _AgentSessionRecord]
    """Session id → its record. Closed ones stay for the retry window, with their answer."""

    async def _seed_agent_session_state(self, body: AgentSeedSessionRequest) -> AgentSessionState:
        """Return the state of a new session. Raises `HTTPException` for tools that the agent cannot use."""
        raise HTTPException(501, f"{type(self).__name__} has no sessions: call its /run")

    async def _close_agent_session_state(self, state: AgentSessionState) -> AgentCloseSessionResponse:
        """Release the state. Called again if it raises, and never after it returns."""
        return AgentCloseSessionResponse(agent_session_id=state.request.agent_session_id)

    def effective_tool_accesses(self, body: AgentSeedSessionRequest) -> list[ToolAccess]:
        """Return the tools of the session: those granted to it, and those of the agent's own configuration."""
        own: list[ToolAccess] = list(getattr(getattr(self, "config", None), "tool_accesses", None) or ())
        granted = {access.name for access in body.tool_accesses}
        return [*body.tool_accesses, *(access for access in own if access.name not in granted)]

    def _agent_session_id_from_request(self, request: Request) -> str | None:
        """Return the agent session that the request's cookie or header belongs to, or None."""
        data: Mapping[str, Any] = request.session
        return data.get(AGENT_SESSION_KEY)

    def _require_agent_session(self, agent_session_id: str) -> AgentSessionState:
        """Return the state of an open session. Raises `HTTPException` with status 409 if it is closed or unknown."""
        record = self._session_records.get(agent_session_id)
        if record is None or record.closing or record.state is None:
            raise HTTPException(409, f"The agent session {agent_session_id} is not open")
        return record.state

    async def seed_agent_session(
        self, request: Request, body: AgentSeedSessionRequest
    ) -> AgentSeedSessionResponse:
        """Open a session. The same request again has the same answer."""
        self._forget_old_sessions()
        record = self._session_records.setdefault(
            body.agent_session_id, _AgentSessionRecord(episode_id=body.episode_id)
        )
        async with record.lock:
            if record.closing:
                raise HTTPException(409, f"The agent session {body.agent_session_id} is closed")
            if record.state is None:
                await self._set_up(record, body)
            elif record.state.request != body:
                raise HTTPException(
                    409, f"The agent session {body.agent_session_id} is open with another request"
                )
        request.session[AGENT_SESSION_KEY] = body.agent_session_id
        return AgentSeedSessionResponse(agent_session_id=body.agent_session_id)

    async def _set_up(self, record: _AgentSessionRecord, body: AgentSeedSessionRequest) -> None:
        try:
            record.state = await self._seed_agent_session_state(body)
        except AgentSessionSetupError as failure:
            record.state, record.closing = failure.state, True
            raise failure.error from failure
        except BaseException:
            del self._session_records[body.agent_session_id]
            raise

    async def close_agent_session(
        self, request: Request, body: AgentCloseSessionRequest
    ) -> AgentCloseSessionResponse:
        """Close a session. A close that failed can be repeated; one that succeeded is answered again."""
        unknown = _AgentSessionRecord(episode_id=body.episode_id)
        record = self._session_records.setdefault(body.agent_session_id, unknown)
        if record.episode_id != body.episode_id:
            raise HTTPException(409, f"The agent session {body.agent_session_id} belongs to another episode")
        record.closing = True
        return await self._close(body.agent_session_id, record)

    async def _close(self, session: str, record: _AgentSessionRecord) -> AgentCloseSessionResponse:
        async with record.lock:
            if record.response is None:
                record.response = (
                    await self._close_agent_session_state(record.state)
                    if record.state is not None
                    else AgentCloseSessionResponse(agent_session_id=session)
                )
                record.state, record.closed_at = None, clock.monotonic()
        return record.response

    async def _close_open_sessions(self) -> None:
        """Close the sessions that are open when the server stops."""
        for session, record in list(self._session_records.items()):
            if record.state is not None:
                record.closing = True
                try:
                    await self._close(session, record)
                except Exception:
                    log.exception("closing agent session %s failed", session)

    def _forget_old_sessions(self) -> None:
        oldest = clock.monotonic() - self.config.session_close_retry_window_seconds
        for session, record in list(self._session_records.items()):
            if record.closed_at is None:
                continue
            if record.closed_at >= oldest:
                return  # sessions close about in the order in which they opened
            del self._session_records[session]
