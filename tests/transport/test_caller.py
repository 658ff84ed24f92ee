"""Retries, the choice of the replica, and the propagation of deadlines."""

from __future__ import annotations

import random
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from nemo_gym.failures import ConfigError, DeadlineError, EngineError, TransportError
from nemo_gym.transport import Call, Caller, Deadline, Directory, Reply, RetryBudget
from nemo_gym.transport.caller import retry_after_s
from tests.transport.doubles import Clock, Peer, broken, reply


def make_caller(peer: Peer, clock: Clock, **budget: Any) -> Caller:
    return Caller(
        Directory({"model": ["http://a"]}),
        peer,
        budget=RetryBudget(**budget),
        clock=clock,
        sleep=clock.sleep,
        rng=random.Random(0),
    )


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
async def test_a_busy_answer_to_a_repeatable_call_is_tried_again(status: int) -> None:
    peer, clock = Peer(reply(status), reply(200)), Clock()
    answer = await make_caller(peer, clock).call("model", "POST", "/v1/responses", repeatable=True)
    assert answer.status == 200
    assert len(peer.calls) == 2


async def test_a_busy_answer_to_a_call_with_side_effects_is_final() -> None:
    peer, clock = Peer(reply(503)), Clock()
    answer = await make_caller(peer, clock).call("model", "POST", "/buy_ticket")
    assert answer.status == 503
    assert len(peer.calls) == 1


async def test_a_call_that_never_arrived_is_tried_again_whatever_it_does() -> None:
    peer, clock = Peer(broken("connect_refused"), reply(200)), Clock()
    answer = await make_caller(peer, clock).call("model", "POST", "/buy_ticket")
    assert answer.status == 200


async def test_a_broken_connection_is_tried_again_where_the_call_is_repeatable() -> None:
    answer = await make_caller(Peer(broken("disconnected"), reply(200)), Clock()).call(
        "model", "POST", "/verify", repeatable=True
    )
    assert answer.status == 200


async def test_a_broken_connection_leaves_a_call_with_side_effects_ambiguous() -> None:
    peer = Peer(broken("disconnected"), reply(200))
    with pytest.raises(TransportError, match="POST /buy_ticket may have been executed") as caught:
        await make_caller(peer, Clock()).call("model", "POST", "/buy_ticket")
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("ambiguous_delivery", True)
    assert len(peer.calls) == 1


async def test_an_envelope_of_ours_is_not_tried_again_because_its_writer_has() -> None:
    wire = b'{"error":{"type":"engine","code":"unavailable","message":"down","retryable":true}}'
    peer = Peer(reply(503, wire))
    answer = await make_caller(peer, Clock()).call("model", "POST", "/v1/responses", repeatable=True)
    assert answer.status == 503
    assert len(peer.calls) == 1


async def test_retry_after_is_waited_for() -> None:
    clock = Clock()
    await make_caller(Peer(reply(429, retry_after="3"), reply(200)), clock).call(
        "model", "GET", "/", repeatable=True
    )
    assert clock.slept == [3.0]


async def test_the_budget_of_attempts_ends_with_the_last_answer() -> None:
    peer = Peer(reply(503))
    answer = await make_caller(peer, Clock(), attempts=3).call("model", "GET", "/", repeatable=True)
    assert answer.status == 503
    assert len(peer.calls) == 3


async def test_the_budget_of_seconds_is_not_overdrawn_by_a_wait() -> None:
    clock = Clock()
    peer = Peer(reply(429, retry_after="100"))
    answer = await make_caller(peer, clock, seconds=30).call("model", "GET", "/", repeatable=True)
    assert answer.status == 429
    assert clock.slept == []


async def test_a_long_answer_that_breaks_off_leaves_the_whole_budget_for_trying_again() -> None:
    clock = Clock()

    class Slow(Peer):
        async def send(self, base_url: str, call: Call) -> Reply:
            clock.now += 500.0
            return await super().send(base_url, call)

    peer = Slow(broken("disconnected"), reply(200))
    answer = await make_caller(peer, clock, seconds=30).call("model", "GET", "/", repeatable=True)
    assert answer.status == 200


async def test_waits_grow_and_are_jittered_below_their_bound() -> None:
    clock = Clock()
    budget: dict[str, Any] = {"attempts": 6, "first_wait_s": 1.0, "longest_wait_s": 8.0, "seconds": 1e9}
    await make_caller(Peer(reply(504)), clock, **budget).call("model", "GET", "/", repeatable=True)
    bounds = [2.0, 4.0, 8.0, 8.0, 8.0]
    assert all(0 <= wait <= bound for wait, bound in zip(clock.slept, bounds, strict=True))
    assert len(set(clock.slept)) == 5


async def test_a_deadline_in_the_past_is_a_deadline_error_that_names_the_peer() -> None:
    class Never(Peer):
        async def send(self, base_url: str, call: Call) -> Reply:
            import asyncio

            await asyncio.get_running_loop().create_future()
            raise AssertionError

    clock = Clock()
    with pytest.raises(DeadlineError, match="`model`") as caught:
        await make_caller(Never(), clock).call("model", "GET", "/", deadline=Deadline(-1.0))
    assert caught.value.failure.code == "rollout_deadline"


async def test_other_errors_pass_through() -> None:
    with pytest.raises(EngineError):
        await make_caller(Peer(EngineError("x", code="y")), Clock()).call(
            "model", "GET", "/", repeatable=True
        )


async def test_an_unknown_server_is_named_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'model'"):
        await make_caller(Peer(reply(200)), Clock()).call("modle", "GET", "/")


@pytest.mark.parametrize(
    ("header", "expected"),
    [("7", lambda s: s == 7), ("-3", lambda s: s == 0), ("soon", lambda s: s is None)],
)
def test_retry_after_header(header: str, expected: Callable[[float | None], bool]) -> None:
    assert expected(retry_after_s(reply(429, retry_after=header)))


def test_retry_after_as_a_date_in_the_past_waits_for_nothing() -> None:
    assert retry_after_s(reply(429, retry_after=formatdate(0, usegmt=True))) == 0.0


async def test_what_is_logged_names_peer_cause_and_session_but_no_query(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = Peer(reply(429), reply(200))
    await make_caller(peer, Clock()).call(
        "model", "GET", "/models?key=secret", session="attempt-7", repeatable=True
    )
    (message,) = caplog.messages
    assert message == "GET /models of `model` (http://a) failed: HTTP 429; retrying [attempt-7]"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_an_error_that_names_its_target_and_is_not_tried_again(status: int) -> None:
    peer = Peer(reply(status, location="https://elsewhere/v1/?key=secret"))
    with pytest.raises(TransportError, match=f"HTTP {status} to https://elsewhere/v1/") as caught:
        await make_caller(peer, Clock()).call("model", "POST", "/x", repeatable=True)
    assert (caught.value.failure.code, caught.value.failure.retryable) == ("redirected", False)
    assert "secret" not in str(caught.value)
    assert len(peer.calls) == 1


async def test_304_is_no_redirect() -> None:
    answer = await make_caller(Peer(reply(304)), Clock()).call("model", "GET", "/x")
    assert answer.status == 304


@pytest.mark.parametrize(("repeatable", "sent"), [(True, 2), (False, 1)])
async def test_a_malformed_answer_is_sent_again_only_where_that_is_harmless(
    repeatable: bool, sent: int
) -> None:
    peer = Peer(broken("malformed_answer"), reply(200))
    calling = make_caller(peer, Clock()).call("model", "POST", "/x", repeatable=repeatable)
    if repeatable:
        assert (await calling).status == 200
    else:
        with pytest.raises(TransportError, match="malformed_answer"):
            await calling
    assert len(peer.calls) == sent


async def test_a_connection_that_broke_before_the_call_was_sent_is_harmless_to_any_call() -> None:
    peer = Peer(broken("unasked_answer"), reply(200))
    assert (await make_caller(peer, Clock()).call("model", "POST", "/x")).status == 200


async def test_a_call_has_the_token_of_its_caller_and_the_type_of_its_body() -> None:
    asked: list[Call] = []

    class Keeping(Peer):
        async def send(self, base_url: str, call: Call) -> Reply:
            asked.append(call)
            return await super().send(base_url, call)

    for token in ("secret", None):
        caller = Caller(Directory({"model": ["http://model"]}), Keeping(reply(200), reply(200)), token=token)
        await caller.call("model", "GET", "/")
        await caller.call("model", "POST", "/", body=b"{}", headers={"x-a": "b"})
    json, own = {"content-type": "application/json"}, {"x-ng-token": "secret"}
    assert [call.headers for call in asked] == [own, {**json, **own, "x-a": "b"}, {}, {**json, "x-a": "b"}]
