"""The record that a model server keeps of an attempt's calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import orjson

from nemo_gym.episodes.driver import require_ok
from nemo_gym.transport.context import RequestContext, current_context
from nemo_gym.transport.control import ROLLOUT_RECORDS
from nemo_gym.transport.server_client import ServerClient


class AttemptRecord:
    """The record of one attempt at its model server."""

    def __init__(self, client: ServerClient, model: str, rollout_id: str) -> None:
        self._client = client
        self._model = model
        self._rollout_id = rollout_id

    async def open(self, **terms: Any) -> tuple[str, str]:
        """Open the record and return the key of the attempt's calls, and the path that begins them."""
        stated = {name: value for name, value in terms.items() if value is not None}
        opened = await self._ask("POST", "", {"rollout_id": self._rollout_id, **stated})
        return opened["key"], opened["base_url_path"]

    async def seal(self) -> dict[str, Any] | None:
        """Refuse further calls, cancel those in flight, and return the record as one Responses object.

        None if no call was answered.
        """
        place = "/" + quote(self._rollout_id, safe="")
        await self._ask("POST", place + "/seal", {})
        read = await self._ask("GET", place)
        trace: dict[str, Any] | None = read["response"]
        return trace

    async def _ask(self, method: str, place: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        with _driving():
            reply = await self._client.request(
                method, self._model, ROLLOUT_RECORDS + place, json=body, repeatable=True
            )
        require_ok(reply, self._model, "keep the record of an attempt")
        answer: dict[str, Any] = orjson.loads(reply.body)
        return answer


@contextmanager
def _driving() -> Iterator[None]:
    """Within the block, control routes can be called: the program in the sandbox has no say in them."""
    context = current_context.get()
    own = RequestContext(context.session, context.deadline, context.incarnations) if context else None
    reset = current_context.set(own)
    try:
        yield
    finally:
        current_context.reset(reset)
