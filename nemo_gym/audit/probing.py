"""Attempts at a real resources server over HTTP: `/seed_session`, calls of tools, `/verify`, `/close_session`.

    prober = Prober(caller, "mcqa", seeds=True)
    verdict = await prober.attempt(row, "\\\\boxed{C}")

An environment of any author can be asked so, because these routes are those that every rollout uses. A verdict has the
reward, or the failure that the server answered.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nemo_gym import clock
from nemo_gym.audit.outcomes import ProbeVerdict
from nemo_gym.failures import GymError, VerifierError
from nemo_gym.json_objects import dump_json, object_in
from nemo_gym.responses.responses_answer import build_envelope
from nemo_gym.rows.compose import attach_response, drop_result
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params, read_response
from nemo_gym.rows.verdict import read_failure_class, read_reward
from nemo_gym.transport import Caller, Deadline
from nemo_gym.transport.context import SESSION_HEADER

Call = tuple[str, Mapping[str, Any]]
"""A tool and its arguments."""
_DEADLINE_S = 120.0


class Prober:
    """Attempts at one resources server."""

    def __init__(self, caller: Caller, server: str, *, seeds: bool = True) -> None:
        """`seeds`: open a session for each attempt. An environment that verifies without one needs none."""
        self.server = server
        self.seeds = seeds
        self._caller = caller

    async def attempt(
        self, row: AnyRow, text: str, calls: Sequence[Call] = (), items: Sequence[Mapping[str, Any]] = ()
    ) -> ProbeVerdict:
        """Return the verdict on an attempt that makes `calls` and says `text`; `items` stand before it, as they are."""
        session = clock.hex_id()
        try:
            if self.seeds or calls:
                await self._post("/seed_session", dict(row), session)
            made = [item for call in calls for item in await self._call_tool(call, session)]
            answer = build_answer(row, text, [*items, *made])
            began = time.perf_counter()
            verified = await self._post("/verify", attach_response(row, answer), session)
            seconds = time.perf_counter() - began
        except GymError as error:
            return ProbeVerdict(None, failure=error.failure.message)
        finally:
            if self.seeds or calls:
                await self._close(session)
        outputs = tuple(item["output"] for item in made if "output" in item)
        return replace(_read_verdict(verified, seconds), outputs=outputs, response=answer)

    async def verify(self, row: AnyRow) -> ProbeVerdict:
        """Return a second verdict on a scored row, without a session: for an environment that needs none."""
        try:
            began = time.perf_counter()
            asked = attach_response(drop_result(row), read_response(row))
            verified = await self._post("/verify", asked, clock.hex_id())
        except GymError as error:
            return ProbeVerdict(None, failure=error.failure.message)
        return _read_verdict(verified, time.perf_counter() - began)

    async def attempt_beside(
        self, row: AnyRow, text: str, calls: Sequence[Call] = (), *, said: str | None = None
    ) -> ProbeVerdict:
        """Return the verdict on an attempt without calls, while another session of the row is open.

        The other session makes `calls`, and its answer `said` is verified before.
        """
        elsewhere = clock.hex_id()
        is_opened = self.seeds or bool(calls)
        try:
            if is_opened:
                await self._post("/seed_session", dict(row), elsewhere)
            for call in calls:
                await self._call_tool(call, elsewhere)
            if said is not None:
                await self._post("/verify", attach_response(row, build_answer(row, said)), elsewhere)
            return await self.attempt(row, text)
        except GymError as error:
            return ProbeVerdict(None, failure=error.failure.message)
        finally:
            if is_opened:
                await self._close(elsewhere)

    async def observe(self, row: AnyRow, calls: Sequence[Call]) -> list[str]:
        """Return what the tools say to `calls`, in a session of their own. Raises `GymError`."""
        session = clock.hex_id()
        try:
            await self._post("/seed_session", dict(row), session)
            return [(await self._call_tool(call, session))[1]["output"] for call in calls]
        finally:
            await self._close(session)

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


def _read_verdict(verified: AnyRow, seconds: float) -> ProbeVerdict:
    """Return the verdict of an answer of `/verify`. A reward beside a failure, such as a judge's, is none."""
    reward, failure = read_reward(verified), read_failure_class(verified)
    if failure is not None:
        return ProbeVerdict(None, seconds, f"failed: {failure}")
    return ProbeVerdict(reward, seconds, "" if reward is not None else "its answer has no reward")


def build_answer(row: AnyRow, text: str, items: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return the Responses object of an attempt: `items`, and a message that says `text`."""
    params = read_params(row)
    message = {
        "type": "message", "id": "msg_audit", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}],
    }  # fmt: skip
    envelope = build_envelope(params, ids=lambda prefix: f"{prefix}_audit", now=0.0)
    return envelope | {"model": "audit", "status": "completed", "output": [*items, message]}
