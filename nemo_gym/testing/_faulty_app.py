"""A server's app with a fault plan: delays, resets, refusals and garbled answers, before or after execution.

    - {do: reset_after, route: add, every: 10}         # the tool is executed, its answer is lost
    - {do: hang, route: verify, match: '"task":7'}     # never answers
    - {do: http_503, retry_after_s: 1, times: 3}       # on any route
    - {delay_s: "uniform:0.1:0.5", probability: 0.2}

A route's name is its path without the first slash. A rule without `route` covers all routes except `GET` requests.
The real handlers execute the requests, so executions and answers are counted separately.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from nemo_gym.mock_engine.delivery import RawAnswer, deliver
from nemo_gym.mock_engine.exchange import JSON, ClientLeft, ConnectionCut, Exchange
from nemo_gym.mock_engine.fault_kinds import Delivery
from nemo_gym.mock_engine.fault_plan import Rule, RulePlan
from nemo_gym.serving.app import GymApp
from nemo_gym.serving.middleware import RequestMiddleware
from nemo_gym.transport.memory import ReplyCollector
from nemo_gym.transport.request_body import Message, WholeBody

_HTML = b"<html><body><h1>Bad Gateway</h1></body></html>"

REFUSALS: Mapping[str, RawAnswer] = {
    "http_429": RawAnswer(b'{"detail":"Too many requests."}', 429),
    "http_500": RawAnswer(b'{"detail":"Internal server error"}', 500),
    "http_502": RawAnswer(_HTML, 502, b"text/html"),
    "http_503": RawAnswer(b'{"detail":"Not yet."}', 503),
    "http_504": RawAnswer(_HTML, 504, b"text/html"),
}
"""Answers without calling the handler."""

BEFORE: Mapping[str, Delivery] = {"hang": Delivery.HANG, "reset_before": Delivery.RESET_BEFORE}
"""Faults of requests that are never executed."""

AFTER: Mapping[str, Delivery | None] = {
    "hang_after": Delivery.HANG,
    "reset_after": Delivery.RESET_AFTER,
    "drip": Delivery.DRIP,
    "short_body": Delivery.SHORT_BODY,
    "broken_json": Delivery.BROKEN_JSON,
    "invalid_utf8": Delivery.INVALID_UTF8,
}
"""Faults of the answers to executed requests."""


def _replace_reward(reward: object) -> Callable[[dict[str, Any]], object]:
    return lambda answer: {**answer, "reward": reward}


SHAPES: Mapping[str, Callable[[dict[str, Any]], object]] = {
    "a_list": lambda answer: [answer],
    "reward_missing": lambda answer: {key: value for key, value in answer.items() if key != "reward"},
    "reward_null": _replace_reward(None),
    "reward_text": _replace_reward("1.0"),
}
"""Changes to the JSON object of an answer."""

FAULTS = (*REFUSALS, *BEFORE, *AFTER, *SHAPES)


class ServerFaultRule(Rule):
    """One rule of a server's plan."""

    known_faults = FAULTS


@dataclass
class ServerCounters:
    """Counters of a faulty server."""

    received: Counter[str] = field(default_factory=Counter)
    """Received requests by route."""
    executed: Counter[str] = field(default_factory=Counter)
    """Requests whose handler returned an answer, delivered or not, by route."""
    faults: Counter[str] = field(default_factory=Counter)
    in_flight: int = 0
    peak_in_flight: int = 0
    disconnects: int = 0
    """Callers that disconnected before their answer was complete."""


class FaultyApp(GymApp):
    """A gym app with a plan of faults around it."""

    def __init__(
        self, middleware: RequestMiddleware, plan: RulePlan[ServerFaultRule], seed: int = 0, **options: Any
    ) -> None:
        super().__init__(middleware, **options)
        self.counters = ServerCounters()
        self._plan = plan
        self._delays = Random(f"{seed}/delays")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] == "GET":
            await super().__call__(scope, receive, send)
            return
        counters = self.counters
        counters.in_flight += 1
        counters.peak_in_flight = max(counters.peak_in_flight, counters.in_flight)
        try:
            await self._serve(Exchange(scope, receive, send), send)
        except ConnectionCut:
            pass  # counted as a fault
        except (ClientLeft, asyncio.CancelledError) as left:
            counters.disconnects += 1
            if isinstance(left, asyncio.CancelledError):
                raise
        finally:
            counters.in_flight -= 1

    async def _serve(self, exchange: Exchange, send: Send) -> None:
        route = exchange.path.lstrip("/")
        body = await exchange.body(self._request_middleware.bodies, is_trusted=True)
        self.counters.received[route] += 1
        rule = self._plan.pick(route, body)
        if rule is None:
            await self._execute(exchange, body, route, send)
            return
        self.counters.faults[rule.name] += 1
        if rule.delay_s is not None:
            await exchange.pause(rule.delay_s.draw(self._delays))
        name = rule.do
        if name is None:
            await self._execute(exchange, body, route, send)
        elif name in REFUSALS:
            refusal = REFUSALS[name]
            answer = RawAnswer(refusal.body, refusal.status, refusal.content_type, rule.headers)
            await deliver(exchange, answer)
        elif name in BEFORE:
            await _deliver(exchange, REFUSALS["http_500"], BEFORE[name], rule)
        else:
            answer = await self._answer(exchange, body, route)
            if name in SHAPES:
                shaped = SHAPES[name](orjson.loads(answer.body))
                answer = RawAnswer(orjson.dumps(shaped), answer.status, answer.content_type)
            await _deliver(exchange, answer, AFTER.get(name), rule)

    async def _execute(self, exchange: Exchange, body: bytes, route: str, send: Send) -> None:
        scope: Any = exchange.scope
        await super().__call__(scope, WholeBody(body, partial(_wait_until_left, exchange)), send)
        self.counters.executed[route] += 1

    async def _answer(self, exchange: Exchange, body: bytes, route: str) -> RawAnswer:
        """Execute the request and return the handler's answer without sending it."""
        kept = ReplyCollector()
        await self._execute(exchange, body, route, kept)
        assert kept.reply is not None
        headers = {name.encode(): value.encode() for name, value in kept.reply.headers.items()}
        content_type = headers.pop(b"content-type", JSON)
        headers.pop(b"content-length", None)
        return RawAnswer(kept.reply.body, kept.reply.status, content_type, list(headers.items()))


async def _deliver(exchange: Exchange, answer: RawAnswer, delivery: Delivery | None, rule: Rule) -> None:
    match delivery:
        case Delivery.HANG:
            await exchange.wait_until_left()
        case Delivery.RESET_BEFORE:
            await exchange.cut(with_reset=True)
        case _:
            await deliver(exchange, answer, delivery, rule.over_s)


async def _wait_until_left(exchange: Exchange) -> Message:
    """The rest of a `receive` for a handler whose request body has been read already."""
    try:
        await exchange.wait_until_left()
    except ClientLeft:
        return {"type": "http.disconnect"}
