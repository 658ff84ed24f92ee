"""Attempts at a real resources server over HTTP: `/seed_session`, calls of tools, `/verify`, `/close_session`.

    prober = Prober(caller, "mcqa", seeds=True)
    verdict = await prober.attempt(row, "\\\\boxed{C}")

An environment of any author can be asked so, because these routes are those that every rollout uses. A verdict has the
reward, or the failure that the server answered.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_gym import clock
from nemo_gym.failures import GymError, VerifierError
from nemo_gym.json_objects import dump_json, object_in
from nemo_gym.responses.responses_answer import build_envelope
from nemo_gym.rows.compose import attach_response
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params
from nemo_gym.rows.verdict import read_reward
from nemo_gym.transport import Caller, Deadline
from nemo_gym.transport.context import SESSION_HEADER

Call = tuple[str, Mapping[str, Any]]
"""A tool and its arguments."""
_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class ProbeVerdict:
    """The answer to one attempt."""

    reward: float | None
    seconds: float = 0.0
    """The time of `/verify` alone."""
    failure: str = ""
    """Why there is no reward."""


class Prober:
    """Attempts at one resources server."""

    def __init__(self, caller: Caller, server: str, *, seeds: bool = True) -> None:
        """`seeds`: open a session for each attempt. An environment that verifies without one needs none."""
        self.server = server
        self._caller = caller
        self._seeds = seeds

    async def attempt(self, row: AnyRow, text: str, calls: Sequence[Call] = ()) -> ProbeVerdict:
        """Return the verdict on an attempt that makes `calls` and says `text`."""
        session = clock.hex_id()
        try:
            if self._seeds or calls:
                await self._post("/seed_session", dict(row), session)
            items = [item for call in calls for item in await self._call_tool(call, session)]
            answer = build_answer(row, text, items)
            began = time.perf_counter()
            verified = await self._post("/verify", attach_response(row, answer), session)
            seconds = time.perf_counter() - began
        except GymError as error:
            return ProbeVerdict(None, failure=error.failure.message)
        finally:
            if self._seeds or calls:
                await self._close(session)
        reward = read_reward(verified)
        return ProbeVerdict(reward, seconds, "" if reward is not None else "its answer has no reward")

    async def attempt_beside(self, row: AnyRow, text: str, calls: Sequence[Call]) -> ProbeVerdict:
        """Return the verdict on an attempt without calls, while `calls` are made in another session."""
        elsewhere = clock.hex_id()
        try:
            await self._post("/seed_session", dict(row), elsewhere)
            for call in calls:
                await self._call_tool(call, elsewhere)
            return await self.attempt(row, text)
        except GymError as error:
            return ProbeVerdict(None, failure=error.failure.message)
        finally:
            await self._close(elsewhere)

    async def seed(self, row: AnyRow) -> dict[str, Any]:
        """Return the answer of `/seed_session`. Raises `GymError`."""
        session = clock.hex_id()
        try:
            return await self._post("/seed_session", dict(row), session)
        finally:
            await self._close(session)

    async def _call_tool(self, call: Call, session: str) -> list[dict[str, Any]]:
        """Call a tool, and return the items of the call and its output. An error of a tool is its output."""
        name, arguments = call
        reply = await self._send(f"/{name}", dict(arguments), session)
        identifier = f"call_{clock.hex_id()[:8]}"
        return [
            {
                "type": "function_call", "id": f"fc_{identifier}", "call_id": identifier, "name": name,
                "arguments": dump_json(dict(arguments)).decode(), "status": "completed",
            },
            {"type": "function_call_output", "call_id": identifier, "output": reply.body.decode(errors="replace")},
        ]  # fmt: skip

    async def _close(self, session: str) -> None:
        """Close the session. A server without this route forgets it by itself."""
        try:
            await self._send("/close_session", {}, session)
        except GymError:
            return

    async def _post(self, path: str, body: Any, session: str) -> dict[str, Any]:
        reply = await self._send(path, body, session)
        answer = object_in(reply.body)
        if not reply.ok or answer is None:
            text = reply.body.decode(errors="replace")[:300]
            raise VerifierError(f"{path} answered {reply.status}: {text}", code="probe_failed")
        return answer

    async def _send(self, path: str, body: Any, session: str) -> Any:
        return await self._caller.call(
            self.server,
            "POST",
            path,
            body=dump_json(body),
            headers={SESSION_HEADER: session},
            session=session,
            deadline=Deadline.after(_DEADLINE_S),
            repeatable=False,
        )


def build_answer(row: AnyRow, text: str, items: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the Responses object of an attempt: `items`, and a message that says `text`."""
    params = read_params(row)
    message = {
        "type": "message", "id": "msg_audit", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }  # fmt: skip
    envelope = build_envelope(params, ids=lambda prefix: f"{prefix}_audit", now=0.0)
    return envelope | {"model": "audit", "status": "completed", "output": [*items, message]}
