"""Replies that faults produce in place of a server's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import orjson
from multidict import CIMultiDict

from nemo_gym.failures import VerifierError
from nemo_gym.mock_engine.refusals import OVERFLOW_TEXTS, ContextSizes, ErrorAnswer
from nemo_gym.transport import Reply
from simulation.faults import CallFault, FaultKind

_PROXY_PAGE = b"<html><head><title>%d %b</title></head><body><center><h1>%d %b</h1></center></body></html>"


def answer_instead(fault: CallFault) -> Reply | None:
    """Return the reply of a fault that prevents execution, or None if the call is executed."""
    make = _INSTEAD.get(fault.kind)
    return make(fault) if make is not None else None


def spoil(reply: Reply, fault: CallFault) -> Reply:
    """Return the reply as it arrives under `fault`."""
    make = _SPOILED.get(fault.kind)
    return make(reply) if make is not None else reply


def _too_many(fault: CallFault) -> Reply:
    reply = _engine_error(ErrorAnswer("Too many requests.", 429))
    headers = CIMultiDict(reply.headers)
    headers.add("retry-after", f"{fault.seconds:g}")
    return Reply(reply.status, headers, reply.body)


def _overflow(_: CallFault) -> Reply:
    return _engine_error(OVERFLOW_TEXTS[2](ContextSizes(limit=4096, prompt=5000, requested=0)))


def _engine_error(error: ErrorAnswer) -> Reply:
    return _reply(error.status, "application/json", orjson.dumps(error.to_wire()))


def _fails(_: CallFault) -> Reply:
    failure = VerifierError("the handler broke", code="handler_broke", retryable=True).failure
    return _reply(500, "application/json", orjson.dumps(failure.to_wire()))


def _proxy_page(status: int, reason: bytes) -> Reply:
    return _reply(status, "text/html", _PROXY_PAGE % (status, reason, status, reason))


def _reply(status: int, content_type: str, body: bytes) -> Reply:
    return Reply(status, CIMultiDict({"content-type": content_type}), body)


def _half(reply: Reply) -> Reply:
    return Reply(reply.status, reply.headers, reply.body[: len(reply.body) // 2])


def _without_reward(reply: Reply) -> Reply:
    if not reply.ok:
        return reply
    return Reply(reply.status, reply.headers, orjson.dumps({**orjson.loads(reply.body), "reward": None}))


_INSTEAD: Mapping[FaultKind, Callable[[CallFault], Reply]] = {
    FaultKind.HTTP_429: _too_many,
    FaultKind.HTTP_500: lambda _: _reply(500, "text/plain", b"Internal Server Error"),
    FaultKind.HTTP_502: lambda _: _proxy_page(502, b"Bad Gateway"),
    FaultKind.HTTP_503: lambda _: _reply(503, "text/plain", b"no server is available to handle this request"),
    FaultKind.HTTP_504: lambda _: _proxy_page(504, b"Gateway Time-out"),
    FaultKind.FAILS: _fails,
    FaultKind.OVERFLOW: _overflow,
}

_SPOILED: Mapping[FaultKind, Callable[[Reply], Reply]] = {
    FaultKind.LATE_504: lambda _: _proxy_page(504, b"Gateway Time-out"),
    FaultKind.CUT_JSON: _half,
    FaultKind.NONSENSE: lambda reply: Reply(200, reply.headers, b"[]"),
    FaultKind.NO_REWARD: _without_reward,
}
