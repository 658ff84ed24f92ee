"""The two protocols by which a session of a resources server is opened and closed.

An agent opens a session with the task row and names it by header or cookie. An environment server opens it with
`ResourcesSeedSessionRequest` and names it in the body. Either is closed once, by whichever request comes first.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ValidationError

from nemo_gym.failures import InputError
from nemo_gym.protocol.resources_sessions import (
    ResourcesCloseSessionRequest,
    ResourcesSeedSessionRequest,
)
from nemo_gym.serving._session_locks import SessionLocks
from nemo_gym.transport.context import current_context

_ANSWERS_KEPT = 10_000

CloseResources = Callable[[ResourcesCloseSessionRequest], Awaitable[Any]]


class ResourcesSessions:
    """The sessions that environment servers opened at one server, by the gym's session and by their own name."""

    def __init__(self) -> None:
        self._opened: dict[str, ResourcesCloseSessionRequest] = {}
        """Session → the request that closes it."""
        self._answers: OrderedDict[str, Any] = OrderedDict()
        """Name → the answer of its close."""
        self._locks = SessionLocks()

    def recorded(self, seed_session: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
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

    async def close_of(self, session: str, close: CloseResources) -> None:
        """Close what an environment server opened in the gym's `session`, if it did."""
        body = self._opened.get(session)
        if body is not None:
            await self.close_named(body, close)
            self._opened.pop(session, None)


def parse_close(body: bytes) -> ResourcesCloseSessionRequest | None:
    """Return the request of an environment server; None for the agents' protocol. Raises `InputError`."""
    if b"resources_session_id" not in body:
        return None
    try:
        return ResourcesCloseSessionRequest.model_validate_json(body)
    except ValidationError as error:
        raise InputError(
            f"the request to close a session is not valid: {error}", code="invalid_request"
        ) from error
