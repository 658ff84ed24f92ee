"""One hop: requests per second and CPU of a server of the gym, as ratios to a bare ASGI app in the same run.

Both serve the same requests of the same client, 64 concurrently, and return the request's body. The bare app is the
floor. In the gym's server a request passes the middleware to a route that returns the bytes, or to one that parses them
as JSON and dumps them again. 1 KB is a short task row, 30 KB a long conversation, 2 MB an answer with 65,536 token ids.

In addition, an engine's answer of 2 MB with 65,536 token ids and log-probabilities passes through a model server,
without token ids requested, or with their record kept in packed form. Its floor is the cost of parsing and dumping such
an answer once.

Finally, calls of 100 KB in the form of Anthropic's API pass through a model server in memory, alone and as calls of an
opened rollout, whose record is written. The engine's own CPU is in both figures. In the end 512 rollouts make such a
call at the same time.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response

from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.engine import Engine
from nemo_gym.mock_engine.in_memory import mount
from nemo_gym.serving.base import SimpleServer
from nemo_gym.transport import Call, InMemoryTransport, Reply, Transport
from perf.floor import IN_FLIGHT, Hop, Peer, answer, bare_app, body_of, measure_hop, served
from perf.measure import Figures, medians
from responses_api_models.vllm_model.app import VLLMModel

SIZES = {"1 KB": 1_000, "30 KB": 30_000, "2 MB": 2_000_000}
IDS = 65_536
TEXT_BYTES = 4 * IDS
BYTES, JSON = "/bytes", "/json"
GATEWAY = "100 KB call, gateway"
AT_ONCE = 512
_ANSWER_TAKES_S = 10.0


class EchoServer(SimpleServer):
    """A server with a route that echoes bytes, and one that parses and dumps them."""

    def setup_webserver(self) -> FastAPI:
        app = self.new_app()
        app.post(BYTES)(self.pass_on)
        app.post(JSON)(self.parse_and_dump)
        return app

    async def pass_on(self, request: Request) -> Response:
        return Response(await request.body(), media_type="application/json")

    async def parse_and_dump(self, request: Request) -> Response:
        value = orjson.loads(await request.body())
        return Response(orjson.dumps(value), media_type="application/json")


def run(runs: int) -> Figures:
    """Return the figures of the bare app and of the gym, with ratios, by size; then those of a model server."""
    with (
        served(lambda: bare_app) as bare,
        served(lambda: EchoServer.standalone(name="echo").setup_webserver()) as gym,
    ):
        echoed = {
            size: medians([_compared(count, bare, gym) for _ in range(runs)]) for size, count in SIZES.items()
        }
    long_answers = medians([through_a_model_server() for _ in range(runs)])
    gateway = medians([through_the_gateway() for _ in range(runs)])
    at_once = {f"{AT_ONCE} opened rollouts at once": calls_at_once()}
    return {**echoed, f"2 MB answer, {IDS:,} ids": long_answers, GATEWAY: {**gateway, **at_once}}


def _compared(size: int, bare: Peer, gym: Peer) -> Figures:
    body = json_of(size)
    floor = measure_hop(bare, BYTES, body)
    return {
        "bare ASGI app": _figures(floor, floor),
        "gym, bytes passed on": _figures(measure_hop(gym, BYTES, body), floor),
        "gym, parsed and dumped": _figures(measure_hop(gym, JSON, body), floor),
    }


def _figures(hop: Hop, floor: Hop) -> Figures:
    return {
        "requests_per_s": hop.requests_per_s,
        "of_the_floor": hop.requests_per_s / floor.requests_per_s,
        "server_cpu_ms": hop.server_cpu_ms,
        "more_than_the_floor_cpu_ms": hop.server_cpu_ms - floor.server_cpu_ms,
        "client_cpu_ms": hop.client_cpu_ms,
    }


def json_of(size: int) -> bytes:
    """Return a JSON object of about `size` bytes: text as in a conversation, or token ids if it is long."""
    if size <= SIZES["30 KB"]:
        return orjson.dumps({"input": [{"role": "user", "content": "x" * 200}] * (size // 240)})
    return orjson.dumps({"ids": list(range(100_000, 100_000 + IDS)), "logprobs": [-1.2345678901234567] * IDS})


# --- A long answer through a model server ------------------------------------------------------------------------


def through_a_model_server(requests: int = 4 * IN_FLIGHT) -> Figures:
    """Measure a model server's CPU for an answer with ids, and that of one parse and one dump."""
    request = orjson.dumps({"input": "Write a book."})
    chat = long_answer()
    floor_ms = _ms_to_parse_and_dump(chat)
    figures: Figures = {"parsed and dumped once": {"server_cpu_ms": floor_ms}}
    with served(lambda: _engine_with(chat)) as engine:
        for name, ids, least in (
            ("ids not asked for", False, TEXT_BYTES),
            ("ids recorded, packed", True, 2 * TEXT_BYTES),
        ):
            with served(lambda ids=ids: _model_server(engine.url, ids=ids)) as model:  # type: ignore[misc]
                hop = measure_hop(model, "/v1/responses", request, answer_bytes=least, requests=requests)
            figures[name] = {
                "requests_per_s": hop.requests_per_s,
                "server_cpu_ms": hop.server_cpu_ms,
                "times_the_floor": hop.server_cpu_ms / floor_ms,
            }
    return figures


def long_answer() -> bytes:
    """Return a chat completion of 2 MB: 65,536 tokens with ids and logprobs, in the form of NeMo RL's server."""
    message = {
        "role": "assistant",
        "content": "x" * TEXT_BYTES,
        "prompt_token_ids": list(range(1_000, 1_010)),
        "generation_token_ids": list(range(100_000, 100_000 + IDS)),
        "generation_log_probs": [-1.2345678901234567 - number / 1e6 for number in range(IDS)],
    }
    usage = {"prompt_tokens": 10, "completion_tokens": IDS, "total_tokens": IDS + 10}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return orjson.dumps({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "mock",
        "choices": [choice], "usage": usage,
    })  # fmt: skip


def _ms_to_parse_and_dump(body: bytes, times: int = 10) -> float:
    began = time.process_time()
    for _ in range(times):
        orjson.dumps(orjson.loads(body))
    return 1e3 * (time.process_time() - began) / times


def _engine_with(chat: bytes) -> Any:
    """Serve an engine that always gives the same answer."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await body_of(receive)
        await answer(send, chat)

    return app


def _model_server(engine_url: str, *, ids: bool) -> FastAPI:
    model = {"base_url": f"{engine_url}/v1", "api_key": "none", "model": "mock"}
    options = {**model, "return_token_id_information": ids, "token_fields": "packed", "exact_prompts": False}
    return VLLMModel.standalone(name="policy_model", **options).setup_webserver()


# --- Calls of opened rollouts ------------------------------------------------------------------------------------


def through_the_gateway(turns: int = 60) -> Figures:
    """Measure the CPU of a call of 100 KB with and without the record of an opened rollout."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_gateway_figures(folder, turns))


async def _gateway_figures(folder: str, turns: int) -> Figures:
    transport = InMemoryTransport()
    transport.apps["http://model"] = _model_server_in_memory(transport, folder, _new_engine())
    opened = await transport.send("http://model", Call("POST", "/ng-rollouts", b"{}"))
    key = {"x-api-key": opened.json()["key"]}
    ways: tuple[tuple[str, Mapping[str, str]], ...] = (("no rollout", {}), ("opened rollout", key))
    figures: Figures = {}
    for name, headers in ways:
        bodies = [_message_of_100_kb(turn) for turn in range(turns)]
        began = time.process_time()
        for body in bodies:
            reply = await transport.send("http://model", Call("POST", "/v1/messages", body, dict(headers)))
            assert reply.ok, reply.body
        figures[name] = {"server_cpu_ms": 1e3 * (time.process_time() - began) / turns}
    more = figures["opened rollout"]["server_cpu_ms"] - figures["no rollout"]["server_cpu_ms"]
    figures["opened rollout"]["more_cpu_ms"] = more
    return figures


def calls_at_once(count: int = AT_ONCE, answer_takes_s: float = _ANSWER_TAKES_S) -> Figures:
    """Measure as many calls of 100 KB at once as `count`, each of a rollout of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_figures_at_once(folder, count, answer_takes_s))


async def _figures_at_once(folder: str, count: int, answer_takes_s: float) -> Figures:
    transport, engine = InMemoryTransport(), _new_engine(latency_s=answer_takes_s)
    transport.apps["http://model"] = _model_server_in_memory(transport, folder, engine)

    async def send(path: str, body: bytes, headers: dict[str, str]) -> Reply:
        reply = await transport.send("http://model", Call("POST", path, body, headers))
        assert reply.ok, reply.body
        return reply

    keys = [(await send("/ng-rollouts", b"{}", {})).json()["key"] for _ in range(count)]
    bodies = [_message_of_100_kb(turn % 60) for turn in range(count)]
    began = time.process_time()
    await asyncio.gather(
        *(send("/v1/messages", body, {"x-api-key": key}) for key, body in zip(keys, bodies, strict=True))
    )
    cpu_ms = 1e3 * (time.process_time() - began) / count
    return {"peak_in_flight": float(engine.stats.peak_in_flight), "server_cpu_ms": cpu_ms}


def _new_engine(**options: Any) -> EngineApp:
    return EngineApp(Engine(EngineOptions.model_validate({"model": "mock", "policy": "echo", **options})))


def _model_server_in_memory(transport: InMemoryTransport, folder: str, engine: EngineApp) -> FastAPI:
    class Server(VLLMModel):
        def new_transport(self) -> Transport:
            return transport

    base_url = mount(transport, engine)
    server = Server.standalone(name="policy_model", base_url=base_url, api_key="none", model="mock")
    server.server_client.global_config_dict = {"model_call_capture_dir": folder}
    return server.setup_webserver()


def _message_of_100_kb(turn: int) -> bytes:
    """Return a request like a coding agent's: long instructions, 20 tools, and a conversation."""
    schema = {
        "type": "object",
        "properties": {f"field_{n}": {"type": "string", "description": "x" * 60} for n in range(20)},
    }
    tools = [{"name": f"tool_{n}", "description": "x" * 200, "input_schema": schema} for n in range(20)]
    said = [
        {"role": role, "content": [{"type": "text", "text": f"{n} " + "word " * 100}]}
        for n in range(turn // 2)
        for role in ("user", "assistant")
    ]
    messages = [*said, {"role": "user", "content": f"go on {turn}"}]
    system = [{"type": "text", "text": "x" * 48_000}]
    return orjson.dumps(
        {"model": "m", "max_tokens": 20, "system": system, "tools": tools, "messages": messages}
    )
