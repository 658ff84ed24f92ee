"""Where the CPU of a rollout with token ids goes: the price of a turn by stage, beside the floor of the same bytes.

One rollout at a time passes agent, environment and model server in memory. A turn samples 600 tokens and reads 400 of a
tool's output. The answers of the engine and of the tool are made beforehand, so that only the gym is measured. Each
server's CPU is without that of the servers that it calls. Then the collector classifies the row and writes it, and the
export for NeMo RL reads it.

The floor is the cost of the same bytes without a gym: each body is dumped once, passes a pair of sockets and is parsed
once, and the row is written to a file. `early_turn_ms` and `late_turn_ms` are the CPU of the model server at the fifth
turn and at the last ones. Instructions are those of Python's bytecode (`perf.calls`); C code is in the milliseconds.
"""

from __future__ import annotations

import random
import socket
import statistics
import struct
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, ClassVar

import orjson
from fastapi import FastAPI

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.rollouts.plan.plan import PlannedAttempt
from nemo_gym.rollouts.run.agent_attempter import read_reply
from nemo_gym.rollouts.run.answer import Scored, classify
from nemo_gym.rows.calls import convert_for_trainers, read_calls
from nemo_gym.rows.identity import RolloutId
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.tokens.segments import build_segments
from nemo_gym.transport import Call, InMemoryTransport, Reply
from nemo_gym.transport.context import LISTS, TOKENS_HEADER
from perf.calls import Counting
from perf.measure import Figures, in_fast_loop, median_of
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.vllm_model.app import VLLMModel

TURNS = (20, 100)
SAMPLED, READ = 600, 400
"""Tokens of a turn: of the answer and of the tool's output."""
FORMS: dict[str, dict[str, Any]] = {
    "no ids": {"return_token_id_information": False},
    "packed": {"return_token_id_information": True, "token_fields": "packed"},
    "contract": {"return_token_id_information": True, "token_fields": "contract"},
}
EARLY, WIDTH = 5, 3
"""The first of the early turns, and the number of turns of a mean."""
_CHARACTERS = 4.3
"""Of a token of English, its space included."""
_VOCABULARY = 150_000
_STAGES = {"/v1/responses": "model_server", "/run": "agent_and_row", "/read": "tool", "/verify": "verify"}
_SESSION = "session"
"""The stage of opening and closing a session."""


def run(runs: int) -> Figures:
    """Return the median figures of each form by number of turns."""
    return {
        f"{turns} turns, {name}": median_of(runs, lambda turns=turns, form=form: price(turns, form))  # type: ignore[misc]
        for turns in TURNS
        for name, form in FORMS.items()
    }


def price(turns: int, form: dict[str, Any]) -> Figures:
    """Return the CPU milliseconds of a turn by stage, of a turn early and late, and the floor of the same bytes."""
    path = TokenPath(turns, form)
    path.play()
    path.clear()
    row = path.play()
    early, late = path.early_and_late()
    stages = {**path.stages(), **measure_readers(row, turns)}
    return {
        "cpu_ms": sum(stages.values()),
        "cpu_us_a_token": 1e3 * sum(stages.values()) / (SAMPLED + READ),
        "floor_ms": path.floor_ms(row),
        "early_turn_ms": early,
        "late_turn_ms": late,
        "row_kb": len(row) / turns / 1e3,
        **{f"{stage}_ms": spent for stage, spent in stages.items()},
        "instructions": count_instructions(turns, form),
    }


def count_instructions(turns: int, form: dict[str, Any]) -> float:
    """Return the bytecode instructions of a turn."""
    path = TokenPath(turns, form)
    path.play()
    with Counting() as work:
        path.play()
    return work.instructions.total() / turns


# --- The rollout ------------------------------------------------------------------------------------------------


class StagedTransport(InMemoryTransport):
    """Measures the CPU of each server by path, without that of the servers that it calls."""

    def __init__(self) -> None:
        super().__init__()
        self.cpu_s: defaultdict[str, float] = defaultdict(float)
        self.each: list[tuple[str, float]] = []
        self.bodies: list[bytes] = []
        """Requests and answers in JSON."""
        self._within = 0.0

    async def send(self, base_url: str, call: Call) -> Reply:
        outer, self._within, began = self._within, 0.0, time.process_time()
        reply = await super().send(base_url, call)
        whole = time.process_time() - began
        self.cpu_s[call.path] += whole - self._within
        self.each.append((call.path, whole - self._within))
        self._within = outer + whole
        self.bodies += filter(None, (call.body, reply.body))
        return reply


class StagedGym(InProcessGym):
    def __init__(self) -> None:
        super().__init__()
        self.staged = StagedTransport()
        self.transport = self._over = self.staged


class PreparedEngine(InMemoryTransport):
    """An engine whose answers are made beforehand."""

    def __init__(self, turns: int) -> None:
        super().__init__()
        self._answers = prepare_answers(turns)
        self._next = 0
        self.bodies: list[bytes] = []

    async def send(self, base_url: str, call: Call) -> Reply:
        body = self._answers[self._next % len(self._answers)]
        self._next += 1
        self.bodies += filter(None, (call.body, body))
        return Reply(200, (), body)


class Library(SimpleResourcesServer):
    config: BaseResourcesServerConfig
    reads_tokens: ClassVar[bool] = False

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/read")(self.read)
        return app

    async def read(self, body: dict[str, Any]) -> dict[str, str]:
        return {"text": "x" * round(READ * _CHARACTERS)}

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**dict(body), reward=1.0)


class TokenPath:
    """A gym in memory that plays one rollout again and again."""

    def __init__(self, turns: int, form: dict[str, Any]) -> None:
        self._turns = turns
        self._engine = PreparedEngine(turns)
        self._gym = StagedGym()
        self._staged = self._gym.staged
        self._gym.add(Library, "library")
        options = {"base_url": "http://engine/v1", "api_key": "none", "model": "mock", "exact_prompts": False}
        self._gym.add(_model_over(self._engine), "policy_model", **options, **form)
        self._gym.add(
            SimpleAgent,
            "agent",
            resources_server={"type": "resources_servers", "name": "library"},
            model_server={"type": "responses_api_models", "name": "policy_model"},
        )

    def play(self) -> bytes:
        """Return the row of one rollout."""
        rows: list[bytes] = []

        async def play_once() -> None:
            row = {"responses_create_params": {"input": "Read.", "tools": [_READ]}}
            reply = await self._gym.post("agent", "/run", row, headers={TOKENS_HEADER: LISTS})
            reply.raise_for_status()
            rows.append(reply.body)

        in_fast_loop(play_once())
        return rows[0]

    def clear(self) -> None:
        """Forget the figures of earlier rollouts."""
        self._staged.cpu_s.clear()
        self._staged.each.clear()
        self._staged.bodies.clear()
        self._engine.bodies.clear()

    def stages(self) -> dict[str, float]:
        """Return milliseconds of a turn by stage."""
        stages: defaultdict[str, float] = defaultdict(float)
        for path, spent in self._staged.cpu_s.items():
            stages[_STAGES.get(path, _SESSION)] += 1e3 * spent / self._turns
        return dict(stages)

    def early_and_late(self) -> tuple[float, float]:
        """Return milliseconds of the model server in a turn near the beginning and near the end."""
        each = [1e3 * spent for path, spent in self._staged.each if path == "/v1/responses"]
        return statistics.median(each[EARLY - 1 : EARLY - 1 + WIDTH]), statistics.median(each[-WIDTH:])

    def floor_ms(self, row: bytes) -> float:
        """Return milliseconds of a turn for the same bytes through orjson, a pair of sockets and a file."""
        values = [orjson.loads(body) for body in (*self._staged.bodies, *self._engine.bodies)]
        began = time.process_time()
        for value in values:
            orjson.loads(pass_sockets(orjson.dumps(value)))
        with tempfile.TemporaryFile() as file:
            file.write(row)
        return 1e3 * (time.process_time() - began) / self._turns


def measure_readers(row: bytes, turns: int) -> dict[str, float]:
    """Return milliseconds of a turn for the readers of a row: the collector and an export."""
    planned = PlannedAttempt(RolloutId(0, 0), "agent", b"{}")
    lines: list[bytes] = []
    with tempfile.TemporaryFile() as file:

        def collect() -> None:
            scored = classify(planned, read_reply(Reply(200, (), row), "agent"))
            assert isinstance(scored, Scored)
            file.write(scored.line)
            lines.append(scored.line)

        collected = _ms_of(collect)
    parsed = orjson.loads(lines[0])
    exported = _ms_of(
        lambda: (build_segments(read_calls(parsed)), orjson.dumps(convert_for_trainers(parsed)))
    )
    return {"collector": collected / turns, "export": exported / turns}


def _ms_of(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return 1e3 * (time.process_time() - began)


def pass_sockets(body: bytes) -> bytes:
    """Send a body through a pair of sockets."""
    here, there = socket.socketpair()
    received = bytearray()
    with here, there:
        here.setblocking(False)
        left = memoryview(body)
        while len(received) < len(body):
            if left:
                left = left[here.send(left[: 1 << 16]) :]
            received += there.recv(1 << 16)
    return bytes(received)


def _model_over(engine: PreparedEngine) -> type[VLLMModel]:
    class Model(VLLMModel):
        def new_transport(self) -> PreparedEngine:
            return engine

    return Model


# --- What the engine says ---------------------------------------------------------------------------------------

_READ = {
    "type": "function",
    "name": "read",
    "parameters": {"type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]},
    "strict": False,
}


def prepare_answers(turns: int) -> list[bytes]:
    """Return the bodies of an engine's answers in the form of vLLM, each with the ids of its whole prompt."""
    rng = random.Random(0)
    prompt = draw_ids(rng, READ)
    answers = []
    for turn in range(turns):
        sampled = draw_ids(rng, SAMPLED)
        answers.append(orjson.dumps(_answer(turn, prompt, sampled, rng, is_last=turn + 1 == turns)))
        prompt = prompt + sampled + draw_ids(rng, READ)
    return answers


def draw_ids(rng: random.Random, count: int) -> list[int]:
    """Return ids with the frequent ones first, as in a vocabulary."""
    return [int(_VOCABULARY * rng.random() ** 1.5) for _ in range(count)]


def _answer(
    turn: int, prompt: list[int], sampled: list[int], rng: random.Random, *, is_last: bool
) -> dict[str, Any]:
    drawn = [-rng.expovariate(2.0) for _ in sampled]
    logprobs = struct.unpack(f"{len(drawn)}f", struct.pack(f"{len(drawn)}f", *drawn))
    thought, said = "y" * round(500 * _CHARACTERS), "z" * round(100 * _CHARACTERS)
    call = {
        "id": f"call_{turn}",
        "type": "function",
        "function": {"name": "read", "arguments": orjson.dumps({"page": said}).decode()},
    }
    message = {"role": "assistant", "content": said if is_last else None, "reasoning": thought}
    entries = [
        {"token": f"token_id:{token}", "logprob": logprob, "bytes": None, "top_logprobs": []}
        for token, logprob in zip(sampled, logprobs, strict=True)
    ]
    choice = {
        "index": 0,
        "message": message if is_last else {**message, "tool_calls": [call]},
        "logprobs": {"content": entries},
        "finish_reason": "stop" if is_last else "tool_calls",
        "stop_reason": None,
        "token_ids": sampled,
    }
    counts = {"prompt_tokens": len(prompt), "completion_tokens": len(sampled)}
    return {
        "id": f"chatcmpl-{turn}",
        "object": "chat.completion",
        "created": 0,
        "model": "mock",
        "choices": [choice],
        "usage": {**counts, "total_tokens": sum(counts.values())},
        "prompt_token_ids": prompt,
    }
