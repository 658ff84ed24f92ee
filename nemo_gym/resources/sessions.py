"""The two protocols by which a session of a resources server is opened and closed.

An agent opens a session with the task row and names it by header or cookie. An environment server opens it with
`ResourcesSeedSessionRequest` and names it in the body. Either is closed once, by whichever request comes first.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, get_args, get_type_hints

from starlette.requests import Request

from nemo_gym.protocol.resources_sessions import (
    ResourcesCloseSessionRequest,
    ResourcesSeedSessionRequest,
)
from nemo_gym.serving._session_locks import SessionLocks
from nemo_gym.serving.routes import parse_body
from nemo_gym.serving.sessions import SESSION_ID_KEY
from nemo_gym.transport.context import current_context

_ANSWERS_KEPT = 10_000

CloseResources = Callable[[ResourcesCloseSessionRequest | None], Awaitable[Any]]


class AuthorsClose:
    """An author's `close_resources_session`, called with the arguments of its signature.

    These are the body, or the request and a body. A body that may be None closes the sessions that agents opened too.
    """

    def __init__(self, close: Callable[..., Awaitable[Any]]) -> None:
        self._takes_request = "request" in inspect.signature(close).parameters
        hint = get_type_hints(close)["body"] if self._takes_request else ResourcesCloseSessionRequest
        self._close = close
        self._takes_model = ResourcesCloseSessionRequest in (hint, *get_args(hint))
        self.takes_agents_sessions = type(None) in get_args(hint)

    async def __call__(self, request: Request, body: ResourcesCloseSessionRequest | None) -> Any:
        """Return the author's answer; None without a body that the author wants."""
        if body is None and not self.takes_agents_sessions:
            return None
        given = body if body is None or self._takes_model else body.model_dump(mode="json")
        return await (self._close(request=request, body=given) if self._takes_request else self._close(given))


def build_session_request(session: str) -> Request:
    """Return a request of the session, for a close that no request asks for."""
    return Request({"type": "http", "headers": [], "session": {SESSION_ID_KEY: session}})


class ResourcesSessions:
    """The sessions that environment servers opened at one server, by the gym's session and by their own name."""

    def __init__(self) -> None:
        self._opened: dict[str, ResourcesCloseSessionRequest] = {}
        """Session → the request that closes it."""
        self._answers: OrderedDict[str, Any] = OrderedDict()
        """Name → the answer of its close."""
        self._locks = SessionLocks()

    def wrap_seed_session(self, seed_session: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Wrap the author's `seed_session` so that the sessions of environment servers are known."""
        if not inspect.iscoroutinefunction(seed_session):
            return seed_session

        @functools.wraps(seed_session)
        async def seed_and_record(*args: Any, **kwargs: Any) -> Any:
            context = current_context.get()
            for value in (*args, *kwargs.values()):
                if isinstance(value, ResourcesSeedSessionRequest) and context is not None:
                    # Recorded first: a failed opening may have created what its close releases.
                    self._opened[context.session] = ResourcesCloseSessionRequest(
                        resources_session_id=value.resources_session_id, episode_id=value.episode_id
                    )
            return await seed_session(*args, **kwargs)

        return seed_and_record

    async def close_named(self, body: ResourcesCloseSessionRequest, close: CloseResources) -> Any:
        """Close the session that the body names, and return the author's answer. A repeated call gets the same."""
        name = body.resources_session_id
        async with self._locks.exclusive(name):
            if name not in self._answers:
                self._answers[name] = await close(body)
                if len(self._answers) > _ANSWERS_KEPT:
                    self._answers.popitem(last=False)
            return self._answers[name]

    async def close_opened(self, session: str, close: CloseResources) -> Any:
        """Close what was opened in the gym's `session`, and return the author's answer; None without one."""
        body = self._opened.get(session)
        if body is None:
            return await close(None)
        answer = await self.close_named(body, close)
        self._opened.pop(session, None)
        return answer


def parse_close(body: bytes) -> ResourcesCloseSessionRequest | None:
    """Return the request of an environment server; None for the agents' protocol. Raises `InputError`."""
    if b"resources_session_id" not in body:
        return None
    return parse_body(ResourcesCloseSessionRequest, body)
