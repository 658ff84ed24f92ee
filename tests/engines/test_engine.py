"""The engine behind a model server: replicas, retries, headers, and failure messages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from multidict import CIMultiDict

from nemo_gym.engines.engine import AttributedTo, EngineRefused, UpstreamEngine, describe_engines
from nemo_gym.failures import ConfigError, DeadlineError, EngineError, TransportError
from nemo_gym.transport import Call, Deadline, Reply, RetryBudget
from nemo_gym.transport.circuit_breaker import FAILURES_TO_OPEN, find_breakers
from nemo_gym.transport.context import RequestContext, current_context

A, B, C = "http://a:1/v1", "http://b:1/v1", "http://c:1/v1"
BUDGET = RetryBudget(attempts=3, seconds=5.0, first_wait_s=0.0, longest_wait_s=0.0)


def reply(body: object, status: int = 200) -> Reply:
    return Reply(status, CIMultiDict(), body if isinstance(body, bytes) else orjson.dumps(body))


class Replicas:
    """A transport to several engines, each with an answer of its own."""

    def __init__(self, answer_of: Callable[[str, Call], Reply | TransportError]) -> None:
        self._answer_of = answer_of
        self.calls: list[tuple[str, Call]] = []

    async def send(self, base_url: str, call: Call) -> Reply:
        self.calls.append((base_url, call))
        answer = self._answer_of(base_url, call)
        if isinstance(answer, TransportError):
            raise answer
        return answer

    async def close(self) -> None:
        self.calls.clear()

    @property
    def asked(self) -> list[str]:
        return [url for url, _ in self.calls]


def transport_error(code: str, url: str = A) -> TransportError:
    return TransportError(f"{url} {code}", code=code, retryable=True, peer=url)


@contextmanager
def session(name: str, deadline: Deadline | None = None) -> Iterator[None]:
    held = current_context.set(RequestContext(name, deadline))
    try:
        yield
    finally:
        current_context.reset(held)


# --- Replicas ---------------------------------------------------------------------------------------------------


async def test_a_session_stays_with_its_replica_and_sessions_spread() -> None:
    replicas = Replicas(lambda url, call: reply({"ok": url}))
    engine = UpstreamEngine([A, B, C], transport=replicas)
    chosen = {}
    for number in range(60):
        with session(f"session-{number}"):
            chosen[number] = {(await engine.post("/responses", {})).url for _ in range(3)}
    assert all(len(urls) == 1 for urls in chosen.values())
    shares = Counter(next(iter(urls)) for urls in chosen.values())
    assert set(shares) == {A, B, C}


async def test_without_a_session_the_replicas_are_asked_in_turn() -> None:
    replicas = Replicas(lambda url, call: reply({}))
    engine = UpstreamEngine([A, B], transport=replicas)
    for _ in range(4):
        await engine.post("/responses", {})
    assert replicas.asked == [A, B, A, B]


async def test_a_replica_that_is_away_is_passed_over_at_once() -> None:
    replicas = Replicas(lambda url, call: transport_error("connect_refused", url) if url == A else reply({}))
    engine = UpstreamEngine([A, B], transport=replicas, budget=BUDGET)
    for number in range(20):
        with session(f"session-{number}"):
            assert (await engine.post("/responses", {})).url == B
    assert replicas.asked.count(B) == 20
    assert 0 < replicas.asked.count(A) < 20  # once for each session whose own replica it is


async def test_a_replica_that_broke_off_is_asked_again_itself() -> None:
    failures = iter([transport_error("disconnected")])
    replicas = Replicas(lambda url, call: next(failures, None) or reply({}))
    await UpstreamEngine([A, B], transport=replicas, budget=BUDGET).post("/responses", {})
    assert replicas.asked == [A, A]


async def test_a_call_that_was_delivered_goes_to_no_other_replica() -> None:
    """The engine may be at work on it: asking elsewhere as well would double its load just when it is weak."""
    replicas = Replicas(lambda url, call: transport_error("disconnected", url))
    with pytest.raises(EngineError) as raised:
        await UpstreamEngine([A, B], transport=replicas, budget=BUDGET).post("/responses", {})
    assert raised.value.failure.kind == "engine:disconnected"
    assert replicas.asked == [A, A, A]


async def test_when_all_replicas_are_away_the_session_s_own_is_waited_for() -> None:
    replicas = Replicas(lambda url, call: transport_error("connect_refused", url))
    budget = RetryBudget(seconds=0.4, first_wait_s=0.0)
    with pytest.raises(EngineError) as raised:
        await UpstreamEngine([A, B], transport=replicas, budget=budget).post("/responses", {})
    assert raised.value.failure.kind == "engine:connect_refused"
    assert raised.value.failure.peer == A
    assert replicas.asked[:3] == [A, B, A]
    assert set(replicas.asked[2:]) == {A}


async def test_a_replica_that_is_known_to_be_away_is_left_alone_until_it_is_probed() -> None:
    replicas = Replicas(lambda url, call: transport_error("connect_refused", url) if url == A else reply({}))
    engine = UpstreamEngine([A, B], transport=replicas, budget=BUDGET)
    for _ in range(40):
        assert (await engine.post("/responses", {})).url == B
    assert replicas.asked.count(A) == FAILURES_TO_OPEN


# --- What is sent -----------------------------------------------------------------------------------------------


async def test_an_engine_that_has_moved_leaves_no_outage_at_its_old_url() -> None:
    url = A
    replicas = Replicas(lambda url, call: reply({}) if url == B else transport_error("connect_refused", url))
    engine = UpstreamEngine(A, transport=replicas, budget=RetryBudget(attempts=1), locate=lambda: url)
    for at_root in (True, False) * FAILURES_TO_OPEN:
        with pytest.raises(EngineError):
            await engine.call("GET", "/health", at_root=at_root)
    assert len(find_breakers(replicas).to_wire(0.0)) == 2
    url = B
    assert (await engine.call("GET", "/health")).reply.ok
    assert find_breakers(replicas).to_wire(0.0) == []


async def test_key_headers_and_query_go_with_every_request() -> None:
    replicas = Replicas(lambda url, call: reply({"data": []}))
    engine = UpstreamEngine(
        f"{A}/", api_key="key", headers={"X-Team": "gym"}, query={"api-version": "1 2"}, transport=replicas
    )
    await engine.post("/responses", {"input": "x"})
    await engine.models()
    for url, call in replicas.calls:
        assert url == A
        assert call.path.endswith("?api-version=1+2")
        assert call.headers["Authorization"] == "Bearer key"
        assert call.headers["X-Team"] == "gym"
    assert orjson.loads(replicas.calls[0][1].body or b"") == {"input": "x"}


async def test_an_authorization_among_the_headers_is_the_one_that_is_sent() -> None:
    replicas = Replicas(lambda url, call: reply({}))
    await UpstreamEngine(A, api_key="key", headers={"authorization": "Basic abc"}, transport=replicas).post(
        "/x", {}
    )
    names = {name.lower(): value for name, value in replicas.calls[0][1].headers.items()}
    assert names["authorization"] == "Basic abc"
    assert len(names) == len(replicas.calls[0][1].headers)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("http://user:hunter22@a/v1", "contains credentials"),
        ("http://a/v1?api_key=hunter22", "contains a query"),
        ("localhost:8000/v1", "is not a URL"),
        ("", "is not a URL"),
    ],
)
def test_a_url_that_cannot_be_is_refused_without_its_secrets(url: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told) as raised:
        UpstreamEngine(url)
    assert "hunter22" not in str(raised.value)


def test_no_url_is_no_engine() -> None:
    with pytest.raises(ConfigError, match="needs a base URL"):
        UpstreamEngine([])


# --- Failures ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        b"who is Bearer topsecretkey?",
        b'{"error": {"message": "bad key topsecretkey"}}',
        b'{"message": "bad header othersecret"}',
    ],
)
async def test_secrets_that_an_engine_repeats_are_hidden(body: bytes) -> None:
    replicas = Replicas(lambda url, call: reply(body, 401))
    engine = UpstreamEngine(
        A, api_key="topsecretkey", headers={"X-Api-Key": "othersecret"}, transport=replicas
    )
    with pytest.raises(EngineRefused) as raised:
        await engine.post("/responses", {})
    told = f"{raised.value} {raised.value.failure.to_wire()}"
    assert "topsecretkey" not in told
    assert "othersecret" not in told
    assert raised.value.failure.peer == A


async def test_the_deadline_of_the_rollout_ends_the_call() -> None:
    replicas = Replicas(lambda url, call: reply(b"", 503))
    with session("s", Deadline(0.0)), pytest.raises(DeadlineError) as raised:
        await UpstreamEngine(A, transport=replicas).post("/responses", {})
    assert raised.value.failure.peer == A


def test_an_error_without_a_peer_names_the_engine() -> None:
    with pytest.raises(EngineError) as raised, AttributedTo(A):
        raise EngineError("nonsense", code="malformed_answer")
    assert raised.value.failure.peer == A
    with pytest.raises(EngineError) as raised, AttributedTo(A):
        raise EngineError("nonsense", code="malformed_answer", peer=B)
    assert raised.value.failure.peer == B


# --- Preflight --------------------------------------------------------------------------------------------------

LISTING: dict[str, Any] = {
    "object": "list",
    "data": [{"id": "qwen-7b", "max_model_len": 100}, {"id": "other"}],
}


async def test_preflight_gives_what_every_replica_lists() -> None:
    engine = UpstreamEngine([A, B], transport=Replicas(lambda url, call: reply(LISTING)))
    assert await engine.preflight("qwen-7b") == [*LISTING["data"], *LISTING["data"]]


async def test_preflight_names_a_model_that_is_spelled_like_it() -> None:
    engine = UpstreamEngine(A, transport=Replicas(lambda url, call: reply(LISTING)))
    with pytest.raises(EngineError, match="no model named `qwen-7B`") as raised:
        await engine.preflight("qwen-7B")
    assert raised.value.failure.remedy == "Did you mean 'qwen-7b'?"
    with pytest.raises(EngineError) as raised:
        await engine.preflight("llama")
    assert raised.value.failure.remedy == "It serves: qwen-7b, other."


async def test_preflight_finds_the_one_replica_that_is_wrong() -> None:
    def answer(url: str, call: Call) -> Reply | TransportError:
        return transport_error("connect_refused", B) if url == B else reply(LISTING)

    with pytest.raises(EngineError) as raised:
        await UpstreamEngine([A, B, C], transport=Replicas(answer)).preflight("qwen-7b")
    assert raised.value.failure.peer == B


async def test_preflight_reports_a_refused_key() -> None:
    engine = UpstreamEngine(A, transport=Replicas(lambda url, call: reply({"error": "Unauthorized"}, 401)))
    with pytest.raises(EngineRefused) as raised:
        await engine.preflight("qwen-7b")
    assert raised.value.failure.code == "unauthorized"


async def test_an_engine_is_described_by_its_list_and_its_version() -> None:
    calls: list[Call] = []

    def answer(url: str, call: Call) -> Reply:
        calls.append(call)
        return reply({"version": "0.10.1"})

    engine = UpstreamEngine(A, api_key="sk-secret-value", transport=Replicas(answer))
    facts = await engine.describe(LISTING["data"], "qwen-7b")
    assert facts == {"id": "qwen-7b", "max_model_len": 100, "version": "0.10.1"}
    assert [(call.path, call.headers) for call in calls] == [("/version", {})]


@pytest.mark.parametrize("status", [401, 404, 500])
async def test_an_engine_without_a_version_is_described_without_it(status: int) -> None:
    engine = UpstreamEngine(A, transport=Replicas(lambda url, call: reply({"version": "x"}, status)))
    assert await engine.describe(LISTING["data"], "other") == {"id": "other"}


async def test_an_engine_that_breaks_on_its_version_is_not_taken_for_one_that_is_down() -> None:
    def answer(url: str, call: Call) -> Reply | TransportError:
        return transport_error("connect_refused", A) if call.path == "/version" else reply(LISTING)

    replicas = Replicas(answer)
    engine = UpstreamEngine(A, transport=replicas)
    assert await engine.describe([], "qwen-7b") == {}
    assert not find_breakers(replicas).by_url


async def test_an_engine_that_never_tells_its_version_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Silent:
        async def send(self, base_url: str, call: Call) -> Reply:
            await asyncio.Event().wait()
            raise AssertionError

        async def close(self) -> None: ...

    monkeypatch.setattr("nemo_gym.engines.engine._VERSION_S", 0.01)
    assert await UpstreamEngine(A, transport=Silent()).describe([], "qwen-7b") == {}


async def test_an_engine_without_a_list_of_models_is_believed() -> None:
    engine = UpstreamEngine(A, transport=Replicas(lambda url, call: reply({"detail": "Not Found"}, 404)))
    assert await engine.preflight("qwen-7b") == []
    assert await engine.models() == []


# --- What tells two engines apart -------------------------------------------------------------------------------------


VLLM = {
    "id": "policy",
    "object": "model",
    "created": 1700000000,
    "owned_by": "vllm",
    "root": "Qwen/Qwen3-8B",
    "parent": None,
    "max_model_len": 4096,
    "permission": [{"id": "modelperm-1", "created": 1700000000}],
}


def describe(*entries: dict[str, Any], versions: tuple[bytes | None, ...] = (None,)) -> dict[str, Any]:
    return describe_engines(entries, versions, "policy", {"sk-secret-value"})


def test_an_engine_is_known_by_its_model_and_its_version() -> None:
    assert describe(VLLM, versions=(b'{"version": "0.10.1"}',)) == {
        "id": "policy",
        "max_model_len": 4096,
        "owned_by": "vllm",
        "root": "Qwen/Qwen3-8B",
        "version": "0.10.1",
    }


@pytest.mark.parametrize(
    "change",
    [{"created": 1800000000}, {"permission": []}, {"unheard_of": "x"}, {"root": None}, {"parent": ""}],
)
def test_a_restart_changes_no_fact(change: dict[str, Any]) -> None:
    before, after = describe(VLLM), describe({**VLLM, **change})
    assert after == {name: value for name, value in before.items() if name in after}


@pytest.mark.parametrize(
    "change",
    [
        {"root": "Qwen/Qwen3-8B-AWQ"},
        {"max_model_len": 8192},
        {"owned_by": "sglang"},
        {"parent": "Qwen/Qwen3-8B"},
        {"meta": {"n_params": 8, "size": 4}},
    ],
)
def test_another_engine_has_another_fact(change: dict[str, Any]) -> None:
    assert describe({**VLLM, **change}) != describe(VLLM)


def test_quantization_is_seen_by_the_size_that_llama_cpp_tells() -> None:
    first, second = (
        describe({"id": "policy", "owned_by": "llamacpp", "meta": {"n_params": 8, "size": size}})
        for size in (4, 8)
    )
    assert (first["meta_size"], second["meta_size"]) == (4, 8)


def test_other_models_of_an_engine_do_not_count() -> None:
    assert describe(VLLM, {**VLLM, "id": "adapter", "root": "x"}) == describe(VLLM)


def test_replicas_are_one_engine_whose_facts_are_lists_where_they_differ() -> None:
    assert describe(VLLM, VLLM) == describe(VLLM)
    mixed = describe(
        VLLM, {**VLLM, "max_model_len": 2048}, versions=(b'{"version": "2"}', b'{"version": "1"}')
    )
    assert (mixed["max_model_len"], mixed["version"]) == ([2048, 4096], ["1", "2"])


@pytest.mark.parametrize(
    "body", [None, b"", b"<html>", b"[]", b"{}", b'{"version": null}', b'{"version": {"a": 1}}']
)
def test_an_engine_that_does_not_tell_its_version_has_none(body: bytes | None) -> None:
    assert "version" not in describe(VLLM, versions=(body,))


def test_no_key_is_a_fact() -> None:
    echoed = describe(
        {**VLLM, "owned_by": "sk-secret-value"}, versions=(b'{"version": "for sk-secret-value"}',)
    )
    assert "sk-secret-value" not in str(echoed)
    long = describe({**VLLM, "root": "x" * 1000})
    assert "root" not in long


def test_an_engine_without_a_list_has_no_facts() -> None:
    assert describe() == {}
