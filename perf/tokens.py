"""The cost of token ids: row bytes, request bytes and CPU for rollouts of 1 to 100 turns of 1,000 tokens.

Rollouts run one at a time through agent, environment and model server in one process. A turn is a reply with reasoning
and a tool call (600 tokens) and the tool's output (400). A token is a word and a space, 4.3 bytes on average, as with a
real tokenizer on English. Ids go up to 150,000 and log-probabilities have full precision, so that data compresses as in
production. The engine stub's CPU is excluded.
"""

from __future__ import annotations

import asyncio
import random
import re
import struct
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import zstandard
from fastapi import FastAPI

from nemo_gym.base_resources_server import (
    BaseResourcesServerConfig,
    BaseVerifyRequest,
    BaseVerifyResponse,
    SimpleResourcesServer,
)
from nemo_gym.mock_engine import EngineOptions, Message, ModelReply, Tool, ToolCall
from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.conversation import turns_taken
from nemo_gym.mock_engine.engine import Engine, GeneratedChoice
from nemo_gym.mock_engine.in_memory import mount
from nemo_gym.mock_engine.request import GenerationRequest
from nemo_gym.mock_engine.tokenizer import MARKS
from nemo_gym.rows.calls import read_calls
from nemo_gym.testing.in_process import InProcessGym
from nemo_gym.tokens.segments import build_segments
from nemo_gym.transport import Call, InMemoryTransport
from nemo_gym.transport import Reply as HttpReply
from perf.measure import median_of
from responses_api_agents.simple_agent.app import SimpleAgent
from responses_api_models.vllm_model.app import VLLMModel

TURNS = (1, 10, 30, 100)
REASONING_TOKENS, CALL_TOKENS, OUTPUT_TOKENS = 500, 100, 400
FORMS: dict[str, dict[str, Any]] = {
    "no ids": {"return_token_id_information": False},
    "packed": {"token_fields": "packed"},
    "contract": {"token_fields": "contract"},
}
MOST_CONTRACT_TURNS = 30
"""In the contract's fields a row of 100 turns exceeds 30 MB; the packed form avoids that."""

VOCABULARY = 150_000
_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PIECE = re.compile("|".join([*map(re.escape, MARKS), r"[a-z0-9]{1,4} ?", r"."]), re.DOTALL)


def run(runs: int = 3) -> dict[str, Any]:
    """Return the median figures of each form by number of turns."""
    figures: dict[str, Any] = {}
    for turns in TURNS:
        forms = {
            name: form for name, form in FORMS.items() if name != "contract" or turns <= MOST_CONTRACT_TURNS
        }
        figures[f"{turns} turns"] = {
            name: median_of(runs, lambda turns=turns, form=form: asyncio.run(measure(turns, form)))  # type: ignore[misc]
            for name, form in forms.items()
        }
    return figures


async def measure(turns: int, form: dict[str, Any]) -> dict[str, float]:
    gym = MeteredGym()
    engine = MeteredTransport()
    app = EngineApp(
        WordEngine(
            EngineOptions(model="mock", max_model_len=10**7), policy=Worker(turns), tokenizer=WordTokenizer()
        )
    )
    model = {"base_url": mount(engine, app), "api_key": "none", "model": "mock", "exact_prompts": False}
    gym.add(Library, "library")
    gym.add(_model_over(engine), "policy_model", **{"return_token_id_information": True, **model, **form})
    gym.add(
        SimpleAgent,
        "agent",
        resources_server={"type": "resources_servers", "name": "library"},
        model_server={"type": "responses_api_models", "name": "policy_model"},
    )
    started = time.process_time()
    row = await gym.run("agent", {"responses_create_params": {"input": "Read.", "tools": [READ]}})
    cpu_s = time.process_time() - started - engine.cpu_s
    return {**_figures_of(row), **_figures_of_requests(gym, engine), "gym_cpu_ms_a_turn": 1e3 * cpu_s / turns}


def _figures_of(row: dict[str, Any]) -> dict[str, float]:
    encoded = orjson.dumps(row)
    segments = build_segments(read_calls(row))
    return {
        "row_mb": len(encoded) / 1e6,
        "row_zstd_mb": len(zstandard.compress(encoded)) / 1e6,
        "tokens": float(sum(len(segment.token_ids) for segment in segments)),
        "segments": float(len(segments)),
    }


def _figures_of_requests(gym: MeteredGym, engine: MeteredTransport) -> dict[str, float]:
    to_model = gym.metered.sent["/v1/responses"]
    to_engine = engine.sent["/chat/completions"]
    others = gym.metered.sent.total() - to_model
    return {
        "requests_mb": (to_engine + to_model + others) / 1e6,
        "requests_to_engine_mb": to_engine / 1e6,
        "requests_to_model_server_mb": to_model / 1e6,
        "requests_to_environment_mb": others / 1e6,
    }


# --- What is measured -------------------------------------------------------------------------------------------


class MeteredTransport(InMemoryTransport):
    """Counts the bytes of requests by path, and the CPU of the servers that answer them."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: Counter[str] = Counter()
        self.cpu_s = 0.0

    async def send(self, base_url: str, call: Call) -> HttpReply:
        self.sent[call.path] += len(call.body or b"")
        started = time.process_time()
        try:
            return await super().send(base_url, call)
        finally:
            self.cpu_s += time.process_time() - started


class MeteredGym(InProcessGym):
    def __init__(self) -> None:
        super().__init__()
        self.metered = MeteredTransport()
        self.transport = self._over = self.metered


def _model_over(engine: MeteredTransport) -> type[VLLMModel]:
    class Model(VLLMModel):
        def new_transport(self) -> MeteredTransport:
            return engine

    return Model


# --- Components -------------------------------------------------------------------------------------------------

READ = {
    "type": "function",
    "name": "read",
    "parameters": {"type": "object", "properties": {"page": {"type": "string"}}, "required": ["page"]},
    "strict": False,
}


def words(count: int, rng: random.Random) -> str:
    """Return text with the given number of tokens and a realistic word distribution."""
    return " ".join(_word(int(VOCABULARY // 2 * rng.random() ** 1.5)) for _ in range(count))


def _word(number: int) -> str:
    word = ""
    while number:
        number, digit = divmod(number, len(_LETTERS))
        word = _LETTERS[digit] + word
    return word


class Library(SimpleResourcesServer):
    config: BaseResourcesServerConfig

    def setup_webserver(self) -> FastAPI:
        app = super().setup_webserver()
        app.post("/read")(self.read)
        return app

    async def read(self, body: dict[str, Any]) -> dict[str, str]:
        return {"text": words(OUTPUT_TOKENS, random.Random(body["page"]))}

    async def verify(self, body: BaseVerifyRequest) -> BaseVerifyResponse:
        return BaseVerifyResponse(**body.model_dump(), reward=1.0)


class Worker:
    """Reasons and reads a page in every turn except the last."""

    def __init__(self, turns: int) -> None:
        self._turns = turns

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: random.Random) -> ModelReply:
        turn = turns_taken(conversation)
        thought = words(REASONING_TOKENS, rng)
        if turn + 1 >= self._turns:
            return ModelReply(words(CALL_TOKENS, rng), thought)
        page = orjson.dumps({"page": words(CALL_TOKENS, rng)}).decode()
        return ModelReply("", thought, (ToolCall("read", page),))


class WordTokenizer:
    """One token per word with its following space, and one per other character."""

    end_of_turn = VOCABULARY + MARKS.index("<|end|>")
    _first_character = VOCABULARY + len(MARKS)

    def encode(self, text: str) -> list[int]:
        return [token for piece in _PIECE.findall(text) for token in self._ids_of(piece)]

    def count(self, text: str) -> int:
        return len(self.encode(text))

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(map(self._text_of, ids))

    def _ids_of(self, piece: str) -> Sequence[int]:
        if piece in MARKS:
            return (VOCABULARY + MARKS.index(piece),)
        word = piece.rstrip(" ")
        if word.isalnum() and word.isascii() and word[0] != "0":
            number = int(word, len(_LETTERS))
            if number < VOCABULARY // 2:
                return (2 * number + (word != piece),)
        return [self._first_character + ord(character) for character in piece]

    def _text_of(self, token: int) -> str:
        if token >= self._first_character:
            return chr(token - self._first_character)
        return MARKS[token - VOCABULARY] if token >= VOCABULARY else _word(token // 2) + " " * (token % 2)


class WordEngine(Engine):
    """An engine whose logprobs use all 32 bits."""

    def _add_tokens(
        self, request: GenerationRequest, choice: GeneratedChoice, written: str, *, ends: bool
    ) -> None:
        super()._add_tokens(request, choice, written, ends=ends)
        if choice.logprobs is not None:
            drawn = [-self._rng.expovariate(2.0) for _ in choice.logprobs]
            choice.logprobs = list(struct.unpack(f"{len(drawn)}f", struct.pack(f"{len(drawn)}f", *drawn)))
