"""Control of a run that goes on, from its page: the verbs of `gym ctl`, passed on to the run with its token.

The run announces its address in a file beside its rows. Only a file of this user is read, and only an address on
loopback is called, so that a folder of another user cannot make a viewer send requests elsewhere.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlsplit

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response

from nemo_gym.failures import GymError, InputError
from nemo_gym.names import RUNS_ROUTE, TOKEN_HEADER
from nemo_gym.rollouts.control.endpoint import Announced, read_announcement
from nemo_gym.rollouts.control.verbs import ControlVerb
from nemo_gym.transport import Call, Reply, call_once
from nemo_gym.viewer.runs import Run

CONTROL_PATH = r"/api/runs/[^/]+/control/[a-z]+"
"""The paths of requests that change something, as a pattern."""
_ANSWERS_S = 30.0
_LOOPBACK = "127.0.0.1"


def find_control(run: Run) -> Announced | None:
    """Return the address of a run that goes on; None if it has ended, or if its file is not to be trusted."""
    path = run.files.control
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or run.fault(path) is not None:
        return None
    announced = read_announcement(path)
    if announced is None or urlsplit(announced.url).hostname != _LOOPBACK:
        return None
    return announced


async def ask_control(run: Run, verb: str = "", body: bytes | None = None) -> Reply | None:
    """Return the answer of a run to a request, without a verb to one for its state; None if the run has ended.

    Raises `GymError` if it does not answer.
    """
    announced = await asyncio.to_thread(find_control, run)
    if announced is None:
        return None
    path = f"{RUNS_ROUTE}/{quote(announced.run, safe='')}" + (f"/{verb}" if verb else "")
    headers = {TOKEN_HEADER: announced.token} | ({"content-type": "application/json"} if verb else {})
    call = Call("POST" if verb else "GET", path, body, headers)
    return await call_once(announced.url, call, timeout_s=_ANSWERS_S)


def add_control_routes(app: FastAPI, find_run: Callable[[str], Run]) -> None:
    """Add the routes of control. `find_run` returns the run of a name, and raises `InputError` for an unknown one."""

    @app.get("/api/runs/{name}/control")
    async def state(name: str) -> Response:
        reply = await _ask_if_alive(find_run(name))
        content = orjson.loads(reply.body) if reply is not None and reply.ok else None
        return Response(orjson.dumps({"state": content}), media_type="application/json")

    @app.post("/api/runs/{name}/control/{verb}")
    async def control(name: str, verb: str, request: Request) -> Response:
        run = find_run(name)
        if verb not in set(ControlVerb):
            raise InputError(f"a run has no verb {verb!r}", code="no_route", status=404)
        asked = _read_body(await request.body())
        reply = await ask_control(run, verb, orjson.dumps({**asked, "by": "gym view"}))
        if reply is None:
            raise InputError(
                "the run has ended",
                code="no_run",
                status=HTTPStatus.CONFLICT,
                remedy="The same command with --resume attempts what is missing.",
            )
        return Response(reply.body, reply.status, media_type="application/json")


async def _ask_if_alive(run: Run) -> Reply | None:
    try:
        return await ask_control(run)
    except GymError:  # it ends just now
        return None


def _read_body(body: bytes) -> Mapping[str, Any]:
    try:
        asked = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise InputError(f"the body is not JSON: {error}", code="invalid_request", status=422) from error
    if not isinstance(asked, dict):
        raise InputError("the body is not a JSON object", code="invalid_request", status=422)
    return asked
