"""The mock engine as an ASGI app: routes, keys, faults, delays and counters.

It uses no web framework: benchmarks subtract the cost of this app, so it has to be small and constant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import orjson
from starlette.types import Receive, Scope, Send

from nemo_gym.failures import GymError, InputError
from nemo_gym.mock_engine._chat import ChatSurface
from nemo_gym.mock_engine._completions import CompletionSurface
from nemo_gym.mock_engine._faults import FaultPlan, FaultRule
from nemo_gym.mock_engine._responses import ResponsesSurface
from nemo_gym.mock_engine._responses_input import parse_responses
from nemo_gym.mock_engine._stats import EngineStats
from nemo_gym.mock_engine._wire import Event, RenderOptions, Surface
from nemo_gym.mock_engine.delivery import RawAnswer, TimedEvent, deliver, deliver_stream
from nemo_gym.mock_engine.engine import Engine, Generation
from nemo_gym.mock_engine.exchange import ClientLeft, ConnectionCut, Exchange
from nemo_gym.mock_engine.fault_kinds import (
    Delivery,
    DeliveryFault,
    ErrorFault,
    Fault,
    GenerationFault,
    ResponseFault,
)
from nemo_gym.mock_engine.fault_plan import read_plan
from nemo_gym.mock_engine.pausing import PAUSE_ROUTES, Generations, PauseRoute, require_development
from nemo_gym.mock_engine.refusals import ContextSizes, ErrorAnswer, Refusal
from nemo_gym.mock_engine.request import (
    GenerationRequest,
    chat_tools,
    check_messages,
    parse_chat,
    parse_completion,
)
from nemo_gym.serving.request_bodies import BodyReader

Payload: TypeAlias = dict[str, Any]
_FULL = ErrorAnswer("Too many requests: the engine's slots and its queue are taken.", 429)


@dataclass(frozen=True, slots=True)
class GenerationRoute:
    """A route that generates, with its parser and its renderer."""

    name: str
    parse: Callable[[Payload], GenerationRequest]
    surface: Surface


@dataclass(frozen=True, slots=True)
class PlainRoute:
    """A route that answers without generating."""

    name: str
    method: str
    answer: Callable[[EngineApp, bytes], Any]


Route: TypeAlias = GenerationRoute | PlainRoute | PauseRoute


class EngineApp:
    """The ASGI application of one engine."""

    def __init__(
        self, engine: Engine, *, faults: FaultPlan | None = None, stats: EngineStats | None = None
    ) -> None:
        options = engine.options
        self.engine = engine
        self.stats = stats or EngineStats()
        self._faults = faults or read_plan(options.faults, FaultRule, options.seed)
        self._render_options = RenderOptions(engine.tokenizer, options.reasoning_field, options.chunk_tokens)
        self._delays = Random(f"{options.seed}/delays")
        self._slots = Slots(options.max_num_seqs, options.max_waiting)
        self._authorization = f"Bearer {options.api_key}" if options.api_key else None
        self._bodies = BodyReader()
        self._generations = Generations()
        self.routes: dict[str, Route] = {**ROUTES, **PAUSE_ROUTES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            raise NotImplementedError(f"The mock engine doesn't speak {scope['type']}.")
        await self._serve(Exchange(scope, receive, send))

    async def _serve(self, exchange: Exchange) -> None:
        try:
            await self._handle(exchange)
        except ConnectionCut:
            pass  # counted as a fault
        except ClientLeft:
            self.stats.disconnects += 1
        except Refusal as refusal:
            await deliver(exchange, self._error(refusal.answer))
        except asyncio.CancelledError:  # a disconnect on the in-memory transport
            self.stats.disconnects += 1
            raise
        finally:
            if exchange.path not in UNCOUNTED:
                self.stats.count(exchange.path, exchange.status)

    async def _handle(self, exchange: Exchange) -> None:
        route = self.routes.get(exchange.path)
        error = self._refusal(exchange, route)
        if error is not None:
            await deliver(exchange, error)
        elif isinstance(route, GenerationRoute):
            self.stats.enter()
            try:
                await self._generate_in_slot(exchange, route)
            finally:
                self.stats.leave()
        elif isinstance(route, PauseRoute):
            query = dict(parse_qsl(exchange.scope["query_string"].decode()))
            given = parse_json(await self.body(exchange) or b"{}")
            done = await route.act(self._generations, {**query, **given})
            await deliver(exchange, RawAnswer(orjson.dumps(done)))
        elif route is not None:
            await self._answer_plainly(exchange, route)

    def _refusal(self, exchange: Exchange, route: Route | None) -> RawAnswer | None:
        """Return the error for a wrong key, path or method, if any."""
        needs_key = self._authorization is not None and exchange.path.startswith("/v1")
        if needs_key and not self._has_key(exchange):
            return RawAnswer(b'{"error":"Unauthorized"}', 401)  # vLLM's text, without its envelope
        if route is None:
            return RawAnswer(b'{"detail":"Not Found"}', 404)
        if exchange.method != ("POST" if isinstance(route, GenerationRoute) else route.method):
            return RawAnswer(b'{"detail":"Method Not Allowed"}', 405)
        return None

    def _has_key(self, exchange: Exchange) -> bool:
        return self._authorization is not None and exchange.header("authorization") == self._authorization

    async def _answer_plainly(self, exchange: Exchange, route: PlainRoute) -> None:
        body = await self.body(exchange)
        rule = await self._begin(exchange, route.name, body)
        fault = rule.fault if rule else None
        delivery, over_s = _read_delivery(rule)
        if rule is not None and isinstance(fault, ErrorFault):
            limit = self.engine.options.max_model_len
            await deliver(exchange, self._error_page(fault, rule, ContextSizes(limit, 0, limit)))
            return
        try:
            answer = RawAnswer(orjson.dumps(route.answer(self, body)))
        except Refusal as refusal:
            answer = self._error(refusal.answer)
        await deliver(exchange, answer, delivery, over_s)

    async def body(self, exchange: Exchange) -> bytes:
        """Return the body of a request; with the key it may have any size. Raises Refusal."""
        try:
            return await exchange.body(self._bodies, is_trusted=self._has_key(exchange))
        except InputError as error:  # it is too large or too slow
            raise Refusal(error.failure.message, status=error.failure.http_status) from error

    async def _begin(self, exchange: Exchange, route: str, body: bytes) -> FaultRule | None:
        """Return the request's rule, if any, after its delay and its faults before execution."""
        rule = self._faults.pick(route, body) if self._faults else None
        if rule is None:
            return None
        self.stats.faults[rule.name] += 1
        if rule.delay_s is not None:
            await exchange.pause(rule.delay_s.draw(self._delays))
        match _read_delivery(rule)[0]:
            case Delivery.HANG:
                await exchange.wait_until_left()
            case Delivery.RESET_BEFORE:
                await exchange.cut(with_reset=True)
        return rule

    async def _generate_in_slot(self, exchange: Exchange, route: GenerationRoute) -> None:
        body = await self.body(exchange)
        if self._generations.is_paused:
            await self._generations.admit(exchange)
        if self._slots.are_full:
            await deliver(exchange, self._error(_FULL))
            return
        if self._slots.must_wait:
            await exchange.wait_for(self._slots.acquire())
        else:
            await self._slots.acquire()
        try:
            await self._generate(exchange, route, body)
        finally:
            self._slots.release()

    async def _generate(self, exchange: Exchange, route: GenerationRoute, body: bytes) -> None:
        rule = await self._begin(exchange, route.name, body)
        delivery, over_s = _read_delivery(rule)
        try:
            request = route.parse(self._payload(body))
            if rule is not None and isinstance(rule.fault, ErrorFault):
                await deliver(
                    exchange, self._error_page(rule.fault, rule, self.engine.measure_context(request))
                )
                return
            generation = self.engine.generate(request)
        except Refusal as refusal:
            await deliver(exchange, self._error(refusal.answer), delivery, over_s)
            return
        except GymError as error:  # raised by the policy
            answer = ErrorAnswer(str(error), error.failure.http_status)
            await deliver(exchange, self._error(answer), delivery, over_s)
            return
        fault = rule.fault if rule else None
        if rule is not None and rule.at_token is not None:
            self.engine.abort(request, generation, rule.at_token)
        elif isinstance(fault, GenerationFault):
            fault.change(request, generation)
        await self._send(exchange, route.surface, request, generation, rule)
        self.stats.prompt_tokens += generation.prompt_tokens
        self.stats.completion_tokens += generation.completion_tokens

    async def _send(
        self,
        exchange: Exchange,
        surface: Surface,
        request: GenerationRequest,
        generation: Generation,
        rule: FaultRule | None,
    ) -> None:
        delivery, over_s = _read_delivery(rule)
        fault = rule.fault if rule else None
        options = self.engine.options
        wait_s = options.latency_s.draw(self._delays)
        if request.streams:
            events = _time_events(
                surface.stream(request, generation, self._render_options), options.tokens_per_s, fault
            )
            await deliver_stream(exchange, events, wait_s, delivery, over_s)
            return
        speed = options.tokens_per_s
        whole_s = wait_s + (generation.completion_tokens / speed if speed is not None else 0.0)
        passed_s = await self._generations.spend(exchange, whole_s, request.payload.get("request_id"))
        if passed_s is not None:
            tokens = 0 if speed is None else int(max(0.0, passed_s - wait_s) * speed)
            self.engine.abort(request, generation, tokens)
        answer = surface.render(request, generation, self._render_options)
        if isinstance(fault, ResponseFault):
            fault.change(answer)
        await deliver(exchange, RawAnswer(orjson.dumps(answer)), delivery, over_s)

    def _payload(self, body: bytes) -> Payload:
        payload = parse_json(body)
        model = payload.get("model")
        if model is not None and model != self.engine.options.model:
            raise Refusal(f"The model `{model}` does not exist.", status=404, param="model")
        return payload

    def _error(self, error: ErrorAnswer) -> RawAnswer:
        return RawAnswer(orjson.dumps(error.to_wire(is_flat=self.engine.options.flat_errors)), error.status)

    def _error_page(self, fault: ErrorFault, rule: FaultRule, sizes: ContextSizes) -> RawAnswer:
        error = fault.error(sizes)
        if fault.page is not None:
            return RawAnswer(fault.page, error.status, b"text/html", rule.headers)
        answer = self._error(error)
        return RawAnswer(answer.body, answer.status, headers=rule.headers)

    def models(self, _: bytes) -> Payload:
        options = self.engine.options
        model = {
            "id": options.model,
            "object": "model",
            "created": 0,
            "owned_by": "vllm",
            "root": options.model,
            "parent": None,
            "max_model_len": options.max_model_len,
            "permission": [],
        }
        return {"object": "list", "data": [model]}

    def health(self, _: bytes) -> Payload:
        return {}

    def tokenize(self, body: bytes) -> Payload:
        return tokenize(self.engine, self._payload(body))

    def detokenize(self, body: bytes) -> Payload:
        return detokenize(self.engine, self._payload(body))

    def do_in_development(self, body: bytes) -> Payload:
        """Do nothing, as far as a client can see. vLLM has the route in its development mode only."""
        require_development()
        return {"results": [None]}

    def show_stats(self, _: bytes) -> Payload:
        return self.stats.to_wire()

    def reset_stats(self, _: bytes) -> Payload:
        self.stats.reset()
        return self.stats.to_wire()


def parse_json(body: bytes) -> Payload:
    """Parse the JSON object in a request body. Raises Refusal."""
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Refusal(
            f"[{{'type': 'json_invalid', 'loc': ('body', {error.pos}), 'msg': 'JSON decode error', 'input': {{}}}}]"
        ) from error
    if not isinstance(payload, dict):
        raise Refusal("The body must be a JSON object.")
    return payload


def _read_delivery(rule: FaultRule | None) -> tuple[Delivery | None, float]:
    if rule is None or not isinstance(rule.fault, DeliveryFault):
        return None, 1.0
    return rule.fault.delivery, rule.over_s


def _time_events(
    events: Iterator[Event], tokens_per_s: float | None, fault: Fault | None
) -> Iterator[TimedEvent]:
    for event in events:
        if isinstance(fault, ResponseFault) and event.payload is not None:
            fault.change(event.payload)
        yield TimedEvent(event.encode(), event.tokens / tokens_per_s if tokens_per_s else 0.0)


async def _live(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return


UNCOUNTED = frozenset({"/stats", "/stats/reset"})
"""Routes that are excluded from the counters."""

ROUTES: Mapping[str, GenerationRoute | PlainRoute] = {
    "/v1/chat/completions": GenerationRoute("chat", parse_chat, ChatSurface()),
    "/v1/completions": GenerationRoute("completions", parse_completion, CompletionSurface()),
    "/v1/responses": GenerationRoute("responses", parse_responses, ResponsesSurface()),
    "/v1/models": PlainRoute("models", "GET", EngineApp.models),
    "/tokenize": PlainRoute("tokenize", "POST", EngineApp.tokenize),
    "/detokenize": PlainRoute("detokenize", "POST", EngineApp.detokenize),
    "/health": PlainRoute("health", "GET", EngineApp.health),
    "/collective_rpc": PlainRoute("collective_rpc", "POST", EngineApp.do_in_development),
    "/reset_prefix_cache": PlainRoute("reset_prefix_cache", "POST", EngineApp.do_in_development),
    "/stats": PlainRoute("stats", "GET", EngineApp.show_stats),
    "/stats/reset": PlainRoute("stats", "POST", EngineApp.reset_stats),
}


# --- Admission --------------------------------------------------------------------------------------------------------
# Admission of requests: a limited number runs, a limited number waits, and the rest is refused.


class Slots:
    """A request holds one slot while it runs."""

    def __init__(self, working: int | None, waiting: int | None) -> None:
        """`working`: the maximum of running requests; `waiting`: of queued ones. None means no limit."""
        self._slots = asyncio.Semaphore(working) if working is not None else None
        self._most_waiting = waiting
        self._waiting = 0

    @property
    def must_wait(self) -> bool:
        """True if the next request has to wait."""
        return self._slots is not None and self._slots.locked()

    @property
    def are_full(self) -> bool:
        """True if the next request has to be refused."""
        return self.must_wait and self._most_waiting is not None and self._waiting >= self._most_waiting

    async def acquire(self) -> None:
        """Wait for a free slot."""
        if self._slots is None:
            return
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1

    def release(self) -> None:
        if self._slots is not None:
            self._slots.release()


# --- Tokens of texts --------------------------------------------------------------------------------------------------
# `/tokenize` and `/detokenize`: messages or text to token ids, and back.


def tokenize(engine: Engine, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of `/tokenize`'s answer. Raises Refusal."""
    ids = engine.tokenizer.encode(_render_text(engine, payload))
    token_strs = (
        [engine.tokenizer.decode([token]) for token in ids] if payload.get("return_token_strs") else None
    )
    return {
        "count": len(ids),
        "max_model_len": engine.options.max_model_len,
        "tokens": ids,
        "token_strs": token_strs,
    }


def _render_text(engine: Engine, payload: Mapping[str, Any]) -> str:
    if isinstance(payload.get("prompt"), str):
        return str(payload["prompt"])
    messages = check_messages(payload.get("messages"), "messages")
    tools = chat_tools(payload) if payload.get("tools") else ()
    opens_reply = payload.get("add_generation_prompt") is not False
    try:
        return engine.template.prompt(messages, tools, opens_reply=opens_reply)
    except ValueError as error:
        raise Refusal(str(error)) from error


def detokenize(engine: Engine, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of `/detokenize`'s answer. Raises Refusal."""
    ids = payload.get("tokens")
    if not isinstance(ids, list) or not all(isinstance(token, int) for token in ids):
        raise Refusal("`tokens` must be a list of token ids.", param="tokens")
    try:
        return {"prompt": engine.tokenizer.decode(ids)}
    except ValueError as error:
        raise Refusal(str(error), param="tokens") from error
