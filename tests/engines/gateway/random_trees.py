"""Random agents: conversations with re-spelled arguments, retries, copies, compactions and subagents.

Each agent notes the parent and the edge that it means for every call, and the calls that must not be trained.
"""

from __future__ import annotations

import asyncio
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Protocol

import orjson

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.mock_engine.drifting import Sampled
from nemo_gym.transport import Call, InMemoryTransport, Reply
from tests.engines.gateway.rollouts import TOKEN, WITH_TOKEN, bearer
from tests.tokens.conversations import Ground, words

TOOL_SCHEMA = {"type": "object", "properties": {"q": {"type": "string"}}}
TOOLS = {
    "messages": [{"name": "search", "input_schema": TOOL_SCHEMA}],
    "chat/completions": [{"type": "function", "function": {"name": "search", "parameters": TOOL_SCHEMA}}],
}


class Asked(Protocol):
    """A model server that an agent calls."""

    async def ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply: ...


class Gateway:
    """A training model server with control routes, in front of an engine that remembers what it sampled."""

    def __init__(self, folder: Path, **ground: Any) -> None:
        self.ground = Ground(exact_prompts=False, **ground)  # no request of the server itself
        before = bootstrap.current()
        bootstrap.set_current(Bootstrap("policy_model", {}, TOKEN, "cookie key", []))
        try:
            server = self.ground.server
            server.server_client.global_config_dict = {"model_call_capture_dir": str(folder)}
            self._transport = InMemoryTransport({"http://gym": server.setup_webserver()})
        finally:
            bootstrap.set_current(before)

    async def ask(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Reply:
        return await self._transport.send("http://gym", Call(method, path, orjson.dumps(body), dict(headers)))

    async def control(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        reply = await self.ask(method, f"/ng-rollouts{path}", body or {}, WITH_TOKEN)
        assert reply.status == 200, reply.body
        answer: dict[str, Any] = reply.json()
        return answer


@dataclass
class Expected:
    """What an agent means by a call."""

    parent: int | None
    edge: str
    beside: int | None = None
    is_continued: bool = False
    copy_of: int | None = None


@dataclass
class Talk:
    """One conversation of an agent."""

    system: str
    messages: list[dict[str, Any]]
    last: int | None = None
    """The number of the call whose answer the agent uses."""
    origin: int | None = None
    """The number of the call that the next one goes on from."""
    edge: str = "root"
    beside: int | None = None
    """The number of the call whose turn is kept beside a summary without it."""


@dataclass
class RandomAgent:
    gateway: Asked
    rng: Random
    api: str
    headers: dict[str, str]
    calls: list[Expected] = field(default_factory=list)
    truths: list[Sampled] = field(default_factory=list)

    async def run(self, steps: int) -> None:
        talk = Talk("You are the main agent.", [{"role": "user", "content": f"Begin {words(self.rng, 5)}"}])
        for _ in range(steps):
            answer = await self.act(talk)
            self.accept(talk, answer)
            chance = self.rng.random()
            if chance < 0.2:
                await self.delegate(talk)
            elif chance < 0.35:
                talk = await self.compact(talk)
            else:
                self.say(talk, f"Next: {words(self.rng, 6)}")
        self.accept(talk, await self.act(talk))

    async def act(self, talk: Talk) -> dict[str, Any]:
        """Make the next call of a conversation, sometimes more than once. Returns the answer that the agent uses."""
        chance = self.rng.random()
        if chance < 0.1:  # in parallel: the second joins the first
            answers = await asyncio.gather(self.post(talk), self.post(talk))
            assert answers[0] == answers[1]
            return self.called(talk, answers[0])
        answer = self.called(talk, await self.post(talk))
        if chance < 0.2:  # the answer was lost: the same one is given again
            assert await self.post(talk, retries=1) == answer
        elif chance < 0.35:  # a copy without a reason
            first = len(self.calls) - 1
            copy = self.called(talk, await self.post(talk))
            self.calls[-1].copy_of = self.calls[first].copy_of = first
            if self.rng.random() < 0.5 or self.text_of(copy) == self.text_of(answer):
                talk.last = len(self.calls) - 1
                return copy
            talk.last = first
        return answer

    def called(self, talk: Talk, answer: dict[str, Any]) -> dict[str, Any]:
        """Note one call of the engine."""
        self.calls.append(Expected(talk.origin, talk.edge, talk.beside))
        talk.last = len(self.calls) - 1
        return answer

    async def post(self, talk: Talk, *, uses_tools: bool = True, retries: int = 0) -> dict[str, Any]:
        system = {"system": talk.system} if self.api == "messages" else {}
        lead = [] if self.api == "messages" else [{"role": "system", "content": talk.system}]
        body = {
            "model": "x",
            "max_tokens": 900,
            "messages": [*lead, *talk.messages],
            "tools": TOOLS[self.api] if uses_tools else [],
        }
        headers = {**self.headers, "x-stainless-retry-count": str(retries)}
        reply = await self.gateway.ask("POST", f"/v1/{self.api}", {**body, **system}, headers)
        assert reply.status == 200, reply.body
        answer: dict[str, Any] = reply.json()
        return answer

    def accept(self, talk: Talk, answer: dict[str, Any]) -> None:
        """Put an answer and the outputs of its tools into the history, in another spelling."""
        assert talk.last is not None
        if self.api == "messages":
            blocks = [block for block in answer["content"] if block["type"] != "thinking"]
            talk.messages.append({"role": "assistant", "content": blocks})
            used = [block["id"] for block in blocks if block["type"] == "tool_use"]
            if used:
                results = [
                    {"type": "tool_result", "tool_use_id": name, "content": words(self.rng, 8)}
                    for name in used
                ]
                talk.messages.append({"role": "user", "content": results})
        else:
            message = {
                k: v
                for k, v in answer["choices"][0]["message"].items()
                if k in ("role", "content", "tool_calls")
            }
            for call in message.get("tool_calls") or ():
                given = orjson.loads(call["function"]["arguments"])
                call["function"]["arguments"] = orjson.dumps(
                    given, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2
                ).decode()
            talk.messages.append({k: v for k, v in message.items() if v})
            talk.messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": words(self.rng, 8)}
                for call in message.get("tool_calls") or ()
            ]
        talk.edge, talk.origin, talk.beside = "continues", talk.last, None

    def say(self, talk: Talk, text: str) -> None:
        if talk.messages[-1]["role"] == "user" and isinstance(talk.messages[-1]["content"], list):
            talk.messages[-1]["content"].append({"type": "text", "text": text})
        else:
            talk.messages.append({"role": "user", "content": text})

    def text_of(self, answer: dict[str, Any]) -> str:
        if self.api == "messages":
            return "".join(block.get("text", "") for block in answer["content"])
        return str(answer["choices"][0]["message"].get("content") or "")

    async def delegate(self, talk: Talk) -> None:
        """A subagent works, and its last answer goes into the conversation."""
        name = f"task {len(self.calls)} {words(self.rng, 4)}"
        sub = Talk("You are a subagent.", [{"role": "user", "content": name}])
        for _ in range(self.rng.randint(1, 2)):
            self.accept(sub, await self.act(sub))
            self.say(sub, f"Next: {words(self.rng, 4)}")
        answer = await self.act(sub)
        self.accept(sub, answer)
        self.say(talk, f"The subagent said: {self.text_of(answer)}")

    async def compact(self, talk: Talk) -> Talk:
        """The history, or all of it but its last or first turns, is replaced by a summary that the model writes."""
        before = deepcopy(talk.messages)
        answers = [place for place, message in enumerate(before) if message["role"] == "assistant"]
        chance = self.rng.random()
        last = talk.last
        assert last is not None
        asked = self.calls[last]
        leaves_out = chance < 0.2 and bool(answers) and asked.parent is not None
        if leaves_out:  # the summary is not of the last turn
            earlier = Talk(talk.system, deepcopy(before[: answers[-1]]))
            earlier.origin, earlier.edge, earlier.beside = asked.parent, asked.edge, asked.beside
            talk = earlier
        self.say(talk, "Summarize the conversation.")
        answer = self.called(talk, await self.post(talk, uses_tools=False))
        summary = self.text_of(answer)
        fresh = Talk(talk.system, [{"role": "user", "content": f"Continued {len(self.calls)}:\n{summary}"}])
        lines = [line.strip() for line in summary.splitlines() if len(line.strip()) >= 16]
        if lines:
            fresh.edge, fresh.origin = "compacts", talk.last
            if chance < 0.4 and answers:
                fresh.messages += before[answers[-1] :]
                self.say(fresh, f"Go on: {words(self.rng, 6)}")
                fresh.beside = last if leaves_out else None
            elif chance < 0.6 and answers:
                first = before[: answers[1]] if len(answers) > 1 else before
                fresh.messages = [*first, *fresh.messages]
        return fresh


async def random_rollout(gateway: Gateway, seed: int) -> tuple[RandomAgent, dict[str, Any]]:
    """Let a random agent work in a rollout of its own. Returns the agent and the record."""
    rng = Random(seed)
    rollout = await gateway.control("POST", "", {"rollout_id": f"r{seed}"})
    before = len(gateway.ground.sampled)
    agent = RandomAgent(gateway, rng, rng.choice(list(TOOLS)), bearer(rollout))
    await agent.run(rng.randint(1, 4))
    agent.truths = gateway.ground.sampled[before:]
    record = await gateway.control("GET", f"/r{seed}")
    await gateway.control("DELETE", f"/r{seed}")
    return agent, record
