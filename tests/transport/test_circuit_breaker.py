"""Calls to an unreachable endpoint share one circuit breaker: they wait together while it is probed."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from nemo_gym.failures import DeadlineError, TransportError
from nemo_gym.transport import Call, Caller, Deadline, Directory, Reply, RetryBudget
from nemo_gym.transport.circuit_breaker import (
    CIRCUIT_TRANSITIONS,
    FAILURES_TO_OPEN,
    LONGEST_BETWEEN_PROBES_S,
    PROBE_CONNECTS_WITHIN_S,
    CircuitBreakers,
    CircuitState,
    find_breakers,
)
from tests.transport.doubles import Clock, Peer, broken, reply

URL = "http://a"


def caller(peer: Any, clock: Any, sleep: Any = None, **budget: Any) -> Caller:
    return Caller(
        Directory({"engine": [URL], "pair": [URL, "http://b"]}),
        peer,
        budget=RetryBudget(**budget),
        clock=clock,
        sleep=sleep or clock.sleep,
        rng=random.Random(0),
    )


class EnginePeer:
    """Refuses connections for a while, then answers."""

    def __init__(self, clock: Clock, back_at: float) -> None:
        self.clock, self.back_at = clock, back_at
        self.asked_at: list[float] = []

    async def send(self, base_url: str, call: Call) -> Reply:
        self.asked_at.append(self.clock.now)
        if self.clock.now < self.back_at:
            raise broken("connect_refused")
        return reply(200)

    async def close(self) -> None:
        self.asked_at.clear()


async def test_a_call_outlasts_an_outage_that_is_shorter_than_its_budget() -> None:
    clock = Clock()
    peer = EnginePeer(clock, back_at=20.0)
    answer = await caller(peer, clock, attempts=5, seconds=60).call("engine", "POST", "/x")
    assert answer.status == 200
    assert 20.0 <= clock.now <= 20.0 + LONGEST_BETWEEN_PROBES_S
    assert not find_breakers(peer).by_url


async def test_a_call_gives_up_when_the_outage_has_lasted_for_its_budget_and_is_final() -> None:
    clock = Clock()
    with pytest.raises(TransportError, match=r"connect_refused happened; tried \d+ times in 30") as caught:
        await caller(EnginePeer(clock, back_at=1e9), clock, seconds=30).call("engine", "POST", "/x")
    assert caught.value.failure.code == "connect_refused"
    assert not caught.value.failure.retryable
    assert clock.now == pytest.approx(30.0)


async def test_the_next_call_does_not_find_out_again() -> None:
    clock = Clock()
    peer = EnginePeer(clock, back_at=1e9)
    for _ in range(50):
        with pytest.raises(TransportError):
            await caller(peer, clock, seconds=30).call("engine", "POST", "/x")
    assert clock.now == pytest.approx(30.0)
    assert len(peer.asked_at) < 20


async def test_a_thousand_calls_to_a_dead_endpoint_send_few_requests_and_log_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Refusing(Peer):
        async def send(self, base_url: str, call: Call) -> Reply:
            self.calls.append((base_url, call))
            await asyncio.sleep(0)
            raise broken("connect_refused")

    peer, loop = Refusing(None), asyncio.get_running_loop()
    calls = [
        caller(peer, loop.time, asyncio.sleep, seconds=0.5).call("engine", "POST", "/x") for _ in range(1000)
    ]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(end) for end in ends} == {TransportError}
    assert len(peer.calls) < 1000 + 10, "what was in flight when it opened, and a few probes"
    assert [message for message in caplog.messages if "retrying" in message] == [
        "POST /x of `engine` (http://a) failed: connect_refused happened; retrying [no session]"
    ]
    assert len(caplog.messages) == 2


async def test_a_gateway_s_answer_opens_the_circuit_and_is_what_calls_come_to() -> None:
    clock, peer = Clock(), Peer(reply(502, b"<html>"))
    first = await caller(peer, clock, attempts=5, seconds=30).call("engine", "GET", "/", repeatable=True)
    assert first.status == 502
    breaker = find_breakers(peer).by_url.get(URL)
    assert breaker is not None
    assert breaker.state is CircuitState.OPEN
    clock.now += 30.0
    breaker.admit(clock.now)  # the probe of another call
    later = await caller(peer, clock, attempts=5, seconds=30).call("engine", "GET", "/", repeatable=True)
    assert later.status == 502


@pytest.mark.parametrize("play", [reply(500), reply(504), reply(429), broken("disconnected")])
async def test_what_is_about_one_call_opens_no_circuit(play: Any) -> None:
    peer = Peer(play)
    for _ in range(5):
        await asyncio.gather(
            caller(peer, Clock(), attempts=3).call("engine", "GET", "/", repeatable=True),
            return_exceptions=True,
        )
    assert not find_breakers(peer).by_url


async def test_our_own_servers_envelopes_open_no_circuit() -> None:
    wire = b'{"error":{"type":"engine","code":"unavailable","message":"down","retryable":true}}'
    peer = Peer(reply(503, wire))
    for _ in range(5):
        await caller(peer, Clock()).call("engine", "GET", "/", repeatable=True)
    assert not find_breakers(peer).by_url


async def test_a_passed_deadline_names_what_the_endpoint_fails_with() -> None:
    loop = asyncio.get_running_loop()
    calling = caller(Peer(broken("connect_refused")), loop.time, asyncio.sleep)
    with pytest.raises(DeadlineError, match="connect_refused happened"):
        await calling.call("engine", "GET", "/", deadline=Deadline.after(0.1))


async def test_replicas_that_are_out_get_no_calls_without_a_session() -> None:
    class Pair(Peer):
        async def send(self, base_url: str, call: Call) -> Reply:
            self.calls.append((base_url, call))
            if base_url == URL:
                raise broken("connect_refused")
            return reply(200)

    peer, clock = Pair(None), Clock()
    for _ in range(FAILURES_TO_OPEN):
        with pytest.raises(TransportError):
            await caller(peer, clock, attempts=1).call("pair", "GET", "/", session=_session_at(URL))
    clock.sleep = None  # type: ignore[assignment]  # no call may sleep from here on
    for _ in range(10):
        assert (await caller(peer, clock, attempts=1).call("pair", "GET", "/")).status == 200


def _session_at(url: str) -> str:
    directory = Directory({"pair": [URL, "http://b"]})
    return next(str(n) for n in range(100) if directory.choose("pair", str(n)) == url)


def test_a_half_open_circuit_admits_one_probe_and_closes_when_that_has_connected() -> None:
    breakers = CircuitBreakers()
    for _ in range(FAILURES_TO_OPEN):
        breakers.note_failure(URL, broken("connect_timeout"), 0.0)
    breaker = breakers.by_url.get(URL)
    assert breaker is not None
    assert not breaker.would_admit(0.1)
    assert breaker.would_admit(1.0)
    breaker.admit(1.0)
    assert breaker.state is CircuitState.HALF_OPEN
    assert breakers.is_out(URL, 1.5)
    assert breaker.would_admit(1.0 + PROBE_CONNECTS_WITHIN_S)
    breaker.admit(1.0 + PROBE_CONNECTS_WITHIN_S)
    assert not breaker.is_open


def test_probes_become_rarer_up_to_a_bound() -> None:
    breakers, now, waits = CircuitBreakers(), 0.0, []
    for _ in range(FAILURES_TO_OPEN):
        breakers.note_failure(URL, broken("connect_refused"), now)
    breaker = breakers.by_url.get(URL)
    assert breaker is not None
    for _ in range(8):
        waits.append(breaker.seconds_to_wait(now))
        now += waits[-1]
        breaker.admit(now)
        breakers.note_failure(URL, broken("connect_refused"), now)
    assert waits == sorted(waits)
    assert waits[-1] == LONGEST_BETWEEN_PROBES_S


def test_every_circuit_can_close() -> None:
    for circuit, onward in CIRCUIT_TRANSITIONS.items():
        assert circuit is CircuitState.CLOSED or CircuitState.CLOSED in onward
        assert circuit not in onward


def test_what_is_out_can_be_shown() -> None:
    breakers = CircuitBreakers()
    breakers.note_failure(URL, broken("connect_refused"), 1.0)
    breakers.note_failure("http://b", reply(502), 1.0)
    assert breakers.to_wire(3.5) == [
        {"peer": URL, "cause": "connect_refused happened", "seconds": 2.5, "failures": 1},
        {"peer": "http://b", "cause": "http://b replies HTTP 502", "seconds": 2.5, "failures": 1},
    ]
    breakers.note_answer(URL, 4.0)
    assert [shown["peer"] for shown in breakers.to_wire(4.0)] == ["http://b"]
