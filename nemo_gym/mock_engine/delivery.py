"""Sending answers: whole or as a stream, at a given pace, and with delivery faults."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nemo_gym.mock_engine.exchange import JSON, Exchange, Header
from nemo_gym.mock_engine.fault_kinds import Delivery

EVENT_STREAM = b"text/event-stream; charset=utf-8"
DRIPS_PER_SECOND = 500


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An HTTP answer that is ready to be sent."""

    body: bytes
    status: int = 200
    content_type: bytes = JSON
    headers: Sequence[Header] = ()


async def deliver(
    exchange: Exchange, answer: RawAnswer, delivery: Delivery | None = None, over_s: float = 1.0
) -> None:
    """Send an answer, with the fault `delivery` if given. Raises ConnectionCut when the fault cuts the connection."""
    body = answer.body
    match delivery:
        case Delivery.RESET_AFTER:
            await exchange.cut(with_reset=True)
        case Delivery.SHORT_BODY:
            announced = (b"content-length", b"%d" % len(body))
            await exchange.start(answer.status, answer.content_type, (*answer.headers, announced))
            await exchange.write(body[: len(body) // 2])
            await exchange.cut(with_reset=False)
        case Delivery.DRIP:
            announced = (b"content-length", b"%d" % len(body))
            await exchange.start(answer.status, answer.content_type, (*answer.headers, announced))
            await _drip(exchange, body, over_s)
            return
        case Delivery.BROKEN_JSON:
            body = body[: len(body) // 2]
        case Delivery.INVALID_UTF8:
            body = body[:-1] + b',"note":"\xff\xfe"}'
        case _:
            pass
    await exchange.answer(answer.status, body, answer.content_type, answer.headers)


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """An encoded event of a stream and the seconds to wait before it."""

    data: bytes
    wait_s: float = 0.0


async def deliver_stream(
    exchange: Exchange,
    events: Iterable[TimedEvent],
    wait_s: float = 0.0,
    delivery: Delivery | None = None,
    over_s: float = 1.0,
) -> None:
    """Send the head at once and, after `wait_s` seconds, each event at its time.

    Raises ClientLeft as soon as the client disconnects, ConnectionCut when `delivery` cuts the connection.
    """
    timed = list(events)
    await exchange.start(200, EVENT_STREAM, ((b"cache-control", b"no-cache"),))
    await exchange.pause(wait_s)
    match delivery:
        case Delivery.RESET_AFTER | Delivery.SHORT_BODY:
            await _send_events(exchange, timed[: len(timed) // 2])
            await exchange.cut(with_reset=delivery is Delivery.RESET_AFTER)
        case Delivery.DRIP:
            await _drip(exchange, b"".join(event.data for event in timed), over_s)
            return
        case Delivery.BROKEN_JSON:
            middle = len(timed) // 2
            timed[middle] = TimedEvent(timed[middle].data[: len(timed[middle].data) // 2] + b"\n\n")
        case Delivery.INVALID_UTF8:
            timed.insert(len(timed) // 2, TimedEvent(b'data: {"note":"\xff\xfe"}\n\n'))
        case _:
            pass
    await _send_events(exchange, timed)
    await exchange.write(b"", is_last=True)


async def _send_events(exchange: Exchange, events: Sequence[TimedEvent]) -> None:
    """Send the events. Events that are due at the same time go out in one write, which costs less CPU."""
    due: list[bytes] = []
    for event in events:
        if event.wait_s > 0:
            await exchange.write(b"".join(due))
            due.clear()
            await exchange.pause(event.wait_s)
        due.append(event.data)
    await exchange.write(b"".join(due))


async def _drip(exchange: Exchange, body: bytes, over_s: float) -> None:
    """Send single bytes, or a few at a time to stay within `DRIPS_PER_SECOND` writes a second."""
    width = max(1, math.ceil(len(body) / (DRIPS_PER_SECOND * over_s)))
    drops = [body[start : start + width] for start in range(0, len(body), width)]
    for drop in drops:
        await exchange.write(drop)
        await exchange.pause(over_s / len(drops))
    await exchange.write(b"", is_last=True)
