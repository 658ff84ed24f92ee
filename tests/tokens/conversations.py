"""Random conversations with tools, held through a real model server in front of an engine that remembers the truth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson

from nemo_gym.engines.responses_upstream import drop_our_fields
from nemo_gym.mock_engine import EngineOptions, ModelReply, Tool, ToolCall
from nemo_gym.mock_engine._template import ChatTemplate
from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.conversation import Message, drop_until_last_user, read_name
from nemo_gym.mock_engine.drifting import DriftingEngine, Sampled
from nemo_gym.mock_engine.in_memory import mount
from nemo_gym.rows.forms import ScoredRow
from nemo_gym.transport import InMemoryTransport, Transport
from nemo_gym.transport.context import RequestContext, current_context
from responses_api_models.vllm_model.app import VLLMModel

WORDS = ("sun", "rain", "o'clock", "Zürich", "雪", "🙂", "x=1;", "the", "a", "\n", "naïve", "{}", "of")
TOOLS = [
    {
        "type": "function",
        "name": name,
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
        "strict": False,
    }
    for name in ("search", "weather")
]


def words(rng: Random, most: int) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, most)))


@dataclass(frozen=True)
class RandomPolicy:
    """Thinks or not, writes something or not, calls some tools or none."""

    thinking: float = 0.5
    turns: int = 4
    """After so many turns it answers without a tool call."""

    def reply(self, conversation: Sequence[Message], tools: Sequence[Tool], rng: Random) -> ModelReply:
        reasoning = words(rng, 12) if rng.random() < self.thinking else ""
        spent = sum(message["role"] == "assistant" for message in drop_until_last_user(conversation))
        if not tools or spent >= self.turns or rng.random() < 0.25:
            return ModelReply(words(rng, 15), reasoning)
        calls = tuple(
            ToolCall(
                read_name(rng.choice(tools)),
                orjson.dumps({"q": words(rng, 4), "n": rng.randint(0, 9)}).decode(),
            )
            for _ in range(rng.randint(1, 2))
        )
        return ModelReply(words(rng, 6) if rng.random() < 0.4 else "", reasoning, calls)


class Ground:
    """A model server in front of a drifting engine, both in memory."""

    def __init__(
        self,
        *,
        policy: Any = None,
        template: ChatTemplate | None = None,
        odd_share: float = 0.0,
        engine: dict[str, Any] | None = None,
        around: Callable[[EngineApp], Any] = lambda app: app,
        takes_lists: bool = False,
        **server: Any,
    ) -> None:
        """`takes_lists`: the agent writes the contract's fields itself (`nemo_gym.rows.token_lists`)."""
        self.takes_lists = takes_lists
        options = EngineOptions(model="mock", seed=1, **(engine or {}))
        self.engine = DriftingEngine(
            options, policy=policy or RandomPolicy(), template=template, odd_share=odd_share
        )
        self.app = EngineApp(self.engine)
        self.server = model_server(around(self.app), **server)

    @property
    def sampled(self) -> list[Sampled]:
        return self.engine.sampled


def model_server(app: Any, **options: Any) -> VLLMModel:
    """A training model server in front of an engine's ASGI app."""
    transport = InMemoryTransport()
    base_url = mount(transport, app)

    class Server(VLLMModel):
        def new_transport(self) -> Transport:
            return transport

    given = {"base_url": base_url, "api_key": "none", "model": "mock", "retry_s": 0, **options}
    server = Server.standalone(return_token_id_information=True, **given)
    assert isinstance(server, VLLMModel)
    return server


@dataclass
class Conversation:
    """One rollout: what an agent sends and keeps, and what the engine truly sampled for each call that it kept."""

    ground: Ground
    session: str
    history: list[Any] = field(default_factory=lambda: [{"role": "user", "content": "Begin."}])
    output: list[dict[str, Any]] = field(default_factory=list)
    truths: list[Sampled] = field(default_factory=list)

    async def ask(self, *, keep: bool = True, **params: Any) -> dict[str, Any]:
        """One model call; `keep`: the agent keeps its answer."""
        reset = current_context.set(RequestContext(self.session, takes_lists=self.ground.takes_lists))
        try:
            response = await self.ground.server.respond({"input": self.history, "tools": TOOLS, **params})
        finally:
            current_context.reset(reset)
        if keep:
            self.truths.append(self.ground.sampled[-1])
            self.output += response["output"]
            self.history = [*self.history, *drop_our_fields(response["output"])]
        return response

    def say(self, text: str) -> None:
        """The user speaks."""
        self.history = [*self.history, {"role": "user", "content": text}]

    def answer_tools(self, response: dict[str, Any], rng: Random) -> bool:
        """Answer the calls of a response; whether there were any."""
        calls = [item for item in response["output"] if item["type"] == "function_call"]
        for call in calls:
            item = {"type": "function_call_output", "call_id": call["call_id"], "output": words(rng, 10)}
            self.output.append(item)
            self.history = [*self.history, item]
        return bool(calls)

    @property
    def row(self) -> ScoredRow:
        return ScoredRow(
            {"responses_create_params": {"input": []}, "response": {"output": self.output}, "reward": 1.0}
        )


async def converse(
    ground: Ground, rng: Random, session: str, *, turns: int = 6, users: int = 2
) -> Conversation:
    """A random conversation of at most so many turns, with up to `users` questions."""
    talk = Conversation(ground, session)
    if rng.random() < 0.5:
        talk.history = [{"role": "system", "content": words(rng, 8)}, *talk.history]
    for _ in range(rng.randint(1, turns)):
        response = await talk.ask()
        if talk.answer_tools(response, rng):
            continue
        users -= 1
        if not users:
            break
        talk.say(words(rng, 6))
    return talk
