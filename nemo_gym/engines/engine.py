"""The inference engine behind a model server: an OpenAI-compatible API at one base URL or several replicas.

A session always uses the same replica, whose prefix cache contains its history. An unreachable replica is skipped until
it replies again. Calls are retried within a budget while the engine is busy or the connection breaks. The final failure
names the engine and the reason, without the secrets of the request.

HTTP statuses of engine errors for the caller of a model server: 400 for a context overflow and for a refused request,
429 and 503 for a busy or unreachable engine, and 502 for errors that only the operator can fix. An engine's 401 and 404
are among these, because the key and the model's name belong to the server's configuration.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import urlencode, urlsplit

import orjson

from nemo_gym import clock
from nemo_gym.config.problems import did_you_mean
from nemo_gym.config.secrets import hide_in_text, secret_values
from nemo_gym.engines.record.tape import EngineReplyKept, current_tape
from nemo_gym.failures import Boundary, ConfigError, DeadlineError, EngineError, TransportError, build_error
from nemo_gym.json_objects import object_in
from nemo_gym.responses import EngineRefusal, Overflow, engine_failure, parse_answer
from nemo_gym.transport import Call, Caller, Deadline, Directory, Reply, RetryBudget, Transport
from nemo_gym.transport.calls import UNDELIVERED_CODES
from nemo_gym.transport.circuit_breaker import CircuitBreakers, find_breakers
from nemo_gym.transport.context import current_context
from nemo_gym.transport.directory import rendezvous
from nemo_gym.transport.pools import process_transport

__all__ = ["ENGINE_RETRY", "AttributedTo", "UpstreamEngine"]

log = logging.getLogger(__name__)

PREFLIGHT_S = 4.0
"""Less than the time that a collector waits for a model server's preflight."""
_VERSION_S = 0.5
"""Seconds for an engine's version, which most engines tell at once or not at all."""
ENGINE_RETRY = RetryBudget(attempts=8, seconds=60.0, first_wait_s=0.25, longest_wait_s=10.0)
PREFLIGHT_RETRY = RetryBudget(attempts=2, seconds=1.0, is_logged=False)


class EngineRefused(EngineError):
    """The engine replied with an error: its HTTP status, and the token counts of a context overflow."""

    def __init__(self, refusal: EngineRefusal, status: int) -> None:
        super().__init__(refusal.failure.message, code=refusal.failure.code)
        self.failure = refusal.failure
        self.engine_status = status
        self.overflow: Overflow | None = refusal.overflow


class EngineReply(NamedTuple):
    """An engine's reply with any status, and the base URL of the replica."""

    reply: Reply
    url: str


_NO_ROUTE = (404, 405)


class EngineAnswer(NamedTuple):
    """The JSON object of a successful reply, and the base URL of the replica."""

    body: dict[str, Any]
    url: str


class AttributedTo(AbstractContextManager[None]):
    """Sets the engine at `url` as the peer of an `EngineError` that names no peer."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, EngineError) and error.failure.peer is None:
            error.failure = replace(error.failure, peer=self._url)


class UpstreamEngine:
    """A JSON client for an engine. Create one per server; it connects on first use."""

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        transport: Transport | None = None,
        budget: RetryBudget = ENGINE_RETRY,
        locate: Callable[[], str | None] | None = None,
        max_concurrent: int | None = None,
    ) -> None:
        """`query` and `headers` are sent with every request; at most `max_concurrent` requests run at a time.

        `locate` is called before every request and returns the current base URL of an engine that moves, or None while
        `urls` are valid. Raises `ConfigError` for an invalid URL.
        """
        self._set_urls([urls] if isinstance(urls, str) else urls)
        self._locate = locate
        self._slots = asyncio.Semaphore(max_concurrent) if max_concurrent is not None else nullcontext()
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        if api_key and "authorization" not in map(str.lower, self._headers):
            self._headers["Authorization"] = f"Bearer {api_key}"
        secrets = secret_values({"headers": self._headers, "query": query or {}})
        self._secrets = {text for secret in secrets for text in (secret, secret.removeprefix("Bearer "))}
        self._query = f"?{urlencode(query)}" if query else ""
        self._transport = transport
        self._budget = budget
        self._rng = clock.rng()
        self._round_robin = itertools.count()

    def _set_urls(self, urls: Iterable[str]) -> None:
        self.urls = [check_url(url) for url in urls]
        if not self.urls:
            raise ConfigError("an engine needs a base URL", code="no_base_url", param="base_url")
        self._directory = Directory({url: [url] for url in (*self.urls, *map(strip_version, self.urls))})
        self._caller: Caller | None = None
        """The caller of the most recently used transport."""

    def follow(self) -> None:
        """Use the current URL of an engine that moves."""
        url = self._locate() if self._locate is not None else None
        if url is not None and [url.rstrip("/")] != self.urls:
            log.info("the engine is at %s now", url)
            breakers = find_breakers(self._transport or process_transport())
            for left in self.urls:  # nothing answers there any more, so no outage would end
                breakers.forget(left)
                breakers.forget(strip_version(left))
            self._set_urls([url])

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        at_root: bool = False,
        parse: Callable[[bytes], Any] = orjson.loads,
    ) -> EngineAnswer:
        """Post `body` and return the answer. Raises `EngineRefused`, `EngineError`, `DeadlineError`."""
        tape = current_tape.get()
        if tape is not None and (kept := tape.take(path)) is not None:
            answer = EngineReply(Reply(kept.status, b"", kept.body), kept.url)
        else:
            answer = await self.call("POST", path, orjson.dumps(body), at_root=at_root)
            if tape is not None:
                tape.add(EngineReplyKept(path, answer.reply.status, answer.reply.body, answer.url))
        if not answer.reply.ok:
            raise self._build_refusal(answer)
        return EngineAnswer(parse_answer(answer.reply.body, peer=answer.url, parse=parse), answer.url)

    async def post_everywhere(self, path: str, body: Mapping[str, Any]) -> None:
        """Post `body` to the root of every replica. Raises the errors of `post` if one replica fails."""
        self.follow()
        sent = orjson.dumps(body)
        sending = (self._send(strip_version(url), self._new_call("POST", path, sent)) for url in self.urls)
        for answer in await asyncio.gather(*sending):
            if not answer.reply.ok:
                raise self._build_refusal(answer)

    async def call(
        self, method: str, path: str, body: bytes | None = None, *, at_root: bool = False
    ) -> EngineReply:
        """Send one request and return the reply, which may be an error. Raises `EngineError`, `DeadlineError`.

        `path` is below the base URL; with `at_root` it is beside `/v1`, where vLLM has routes of its own.
        """
        async with self._slots:
            self.follow()
            context = current_context.get()
            deadline = context.deadline if context else None
            ranked = self._rank_replicas(context.session if context else None)
            if at_root:
                ranked = [strip_version(url) for url in ranked]
            call = self._new_call(method, path, body, fails_over=len(ranked) > 1)
            if call.fails_over:
                for url in _reachable(ranked, find_breakers(self._transport or process_transport())):
                    try:
                        return await self._send(url, call, deadline)
                    except EngineError as error:
                        if error.failure.code not in UNDELIVERED_CODES:
                            raise
                        log.warning("%s; trying the next replica", error.failure.message)
                call.fails_over = False
            return await self._send(ranked[0], call, deadline)

    async def models(self) -> list[dict[str, Any]]:
        """Return the entries of `/models` of the first reachable replica; empty without such a route."""
        return self._read_list(await self.call("GET", "/models"))

    async def preflight(self, model: str | None) -> list[dict[str, Any]]:
        """Return the models of all replicas. Raises for an unreachable replica, a refused key or an unknown model."""
        self.follow()
        listings = await asyncio.gather(*map(self._models_now, self.urls), return_exceptions=True)
        listed: list[dict[str, Any]] = []
        for url, listing in zip(self.urls, listings, strict=True):
            if isinstance(listing, BaseException):
                raise listing
            if listing and model is not None:
                _check_listed(url, model, [str(entry.get("id")) for entry in listing])
            listed += listing
        return listed

    async def describe(self, listed: Iterable[Mapping[str, Any]], model: str | None) -> EngineFacts:
        """Return the facts by which another engine at the same URL is told apart. `listed`: as `preflight` returns it.

        An engine that does not tell its version has none.
        """
        versions = await asyncio.gather(*(self._read_version(strip_version(url)) for url in self.urls))
        return describe_engines(listed, versions, model, self._secrets)

    async def _read_version(self, root: str) -> bytes | None:
        """Return the answer of `/version`, which is asked for without a key; None without one.

        An engine without it is not down, so no circuit breaker learns of it.
        """
        transport = self._transport or process_transport()
        try:
            async with asyncio.timeout(_VERSION_S):
                reply = await transport.send(root, Call("GET", "/version", repeatable=True))
        except (TransportError, DeadlineError, TimeoutError):
            return None
        return reply.body if reply.ok else None

    # --- One request --------------------------------------------------------------------------------------------

    def _rank_replicas(self, session: str | None) -> list[str]:
        """Return the replicas in the order to try them: by hash of the session, or round robin without one."""
        urls = self.urls
        if len(urls) == 1:
            return urls
        if session is None:
            start = next(self._round_robin) % len(urls)
            return urls[start:] + urls[:start]
        return sorted(urls, key=lambda url: rendezvous(url, session))

    def _new_call(
        self, method: str, path: str, body: bytes | None = None, *, fails_over: bool = False
    ) -> Call:
        context = current_context.get()
        session = context.session if context is not None else None
        return Call(method, path + self._query, body, self._headers, session, True, fails_over)

    async def _send(
        self, url: str, call: Call, deadline: Deadline | None = None, budget: RetryBudget | None = None
    ) -> EngineReply:
        transport, budget = self._transport or process_transport(), budget or self._budget
        caller = self._caller
        if caller is None or caller.transport is not transport or budget is not self._budget:
            caller = Caller(self._directory, transport, budget=budget, rng=self._rng)
            if budget is self._budget:
                self._caller = caller
        try:
            reply = await caller.send(url, call, deadline)
        except TransportError as error:
            message = hide_in_text(error.failure.message, self._secrets)
            raise build_error(replace(error.failure, boundary=Boundary.ENGINE, message=message)) from error
        return EngineReply(reply, url)

    def _build_refusal(self, answer: EngineReply) -> EngineRefused:
        reply, url = answer
        refusal = engine_failure(reply.status, reply.headers, reply.body, peer=url)
        message = hide_in_text(refusal.failure.message, self._secrets)
        return EngineRefused(
            refusal._replace(failure=replace(refusal.failure, message=message)), reply.status
        )

    # --- Models -------------------------------------------------------------------------------------------------

    async def _models_now(self, url: str) -> list[dict[str, Any]]:
        """Return the models of `url` within the time limit of a preflight."""
        try:
            answer = await self._ask(url, "/models")
            lacks_v1 = answer.reply.status in _NO_ROUTE and (await self._ask(url, "/v1/models")).reply.ok
        except DeadlineError as error:
            raise EngineError(
                f"{url} did not answer within {PREFLIGHT_S:g} s",
                code="engine_silent",
                retryable=True,
                peer=url,
                remedy="Check that the engine runs and that the URL is correct.",
            ) from error
        if lacks_v1:
            raise EngineError(
                f"{url} has no API of models, but {url}/v1 has one",
                code="engine_route",
                peer=url,
                remedy=f"Write {url}/v1.",
            )
        return self._read_list(answer)

    async def _ask(self, url: str, path: str) -> EngineReply:
        return await self._send(
            url, self._new_call("GET", path), Deadline.after(PREFLIGHT_S), PREFLIGHT_RETRY
        )

    def _read_list(self, answer: EngineReply) -> list[dict[str, Any]]:
        if answer.reply.status in _NO_ROUTE:
            return []
        if not answer.reply.ok:
            raise self._build_refusal(answer)
        data = parse_answer(answer.reply.body, peer=answer.url).get("data")
        return [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []


def _reachable(urls: list[str], breakers: CircuitBreakers) -> list[str]:
    """Return the `urls` that are not known to be unreachable."""
    if not breakers.by_url:
        return urls
    now = clock.rollout_time()
    return [url for url in urls if not breakers.is_out(url, now)]


def strip_version(url: str) -> str:
    """Return the URL for routes beside `/v1`, such as `/tokenize`."""
    return url.removesuffix("/v1")


def check_url(url: str) -> str:
    """Return a base URL without a trailing slash. Raises `ConfigError` for one with credentials or a query."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _bad_url(url, "is not a URL", "A base URL looks like http://host:port/v1.")
    if parts.username or parts.password:
        raise _bad_url(url, "contains credentials", "Move them to the default headers.")
    if parts.query or parts.fragment:
        remedy = "Move it to `default_query` if the model server has this option."
        raise _bad_url(url, "contains a query", remedy)
    return url.rstrip("/")


def _bad_url(url: str, problem: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"the base URL {hide_in_text(url)} {problem}",
        code="invalid_base_url",
        param="base_url",
        remedy=remedy,
    )


def _check_listed(url: str, model: str, names: list[str]) -> None:
    if model in names:
        return
    hint = did_you_mean(model, names) or f"It serves: {', '.join(names[:10])}."
    raise EngineError(f"{url} has no model named `{model}`", code="model_not_found", peer=url, remedy=hint)


# --- What tells two engines apart -------------------------------------------------------------------------------------
# The facts by which two engines are told apart: what they say of a model, and their versions.
# Addresses, start times and permissions are none of them, because a restart of the same engine changes them. A fact
# that an engine does not tell is left out, and then says nothing about a difference.


Fact: TypeAlias = str | int | float | bool
EngineFacts: TypeAlias = dict[str, Fact | list[Fact]]
"""By name; a list, in order, if replicas differ."""

_OF_MODEL: Final = ("id", "root", "parent", "owned_by", "max_model_len")
"""Members of an entry of `/v1/models`: the name, the weights, the base of an adapter, the program, the context."""
_MEASURES: Final = "meta"
"""The member in which llama.cpp tells the sizes of the weights, which differ by quantization."""
_LONGEST: Final = 300
"""Characters of a fact."""


def describe_engines(
    models: Iterable[Mapping[str, Any]],
    versions: Iterable[bytes | None],
    model: str | None,
    secrets: Iterable[str],
) -> EngineFacts:
    """Return the facts of the replicas of an engine.

    `models` are the entries of their lists, of which those of `model` count; `versions` are the answers of their
    `/version`. `secrets` are hidden, in case that an engine repeats them.
    """
    hidden = frozenset(secrets)
    found: dict[str, set[Fact]] = {}
    for entry in (entry for entry in models if entry.get("id") == model):
        for name in _OF_MODEL:
            _add(found, name, entry.get(name), hidden)
        measures = entry.get(_MEASURES)
        for name, value in measures.items() if isinstance(measures, Mapping) else ():
            _add(found, f"{_MEASURES}_{name}", value, hidden)
    for body in versions:
        _add(found, "version", (object_in(body) or {}).get("version") if body else None, hidden)
    return {name: _together(values) for name, values in sorted(found.items())}


def _add(found: dict[str, set[Fact]], name: str, value: object, secrets: frozenset[str]) -> None:
    if isinstance(value, str) and 0 < len(value) <= _LONGEST:
        found.setdefault(name, set()).add(hide_in_text(value, secrets))
    elif isinstance(value, int | float):
        found.setdefault(name, set()).add(value)


def _together(values: set[Fact]) -> Fact | list[Fact]:
    ordered = sorted(values, key=lambda value: (str(type(value)), value))
    return ordered[0] if len(ordered) == 1 else ordered
