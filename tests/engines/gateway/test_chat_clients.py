"""Thirty conversations by clients of Chat Completions, which send no reasoning back: one segment each.

The engine writes what it read and sampled to a log, and the expected segments are computed from that log alone.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from openai import AsyncOpenAI
from starlette.types import ASGIApp

from nemo_gym.config import bootstrap
from nemo_gym.config.bootstrap import Bootstrap
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine._template import MarkTemplate
from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.drifting import DriftingEngine, ForgetfulTemplate
from nemo_gym.mock_engine.engine import Generation
from nemo_gym.mock_engine.request import GenerationRequest
from nemo_gym.mock_engine.token_input import TokenInputApp
from nemo_gym.serving.listening import Listener
from nemo_gym.tokens.reasons import SegmentReason
from nemo_gym.transport import Call
from nemo_gym.transport.http import HttpTransport
from responses_api_models.vllm_model.app import VLLMModel
from tests.engines.gateway.rollouts import TOKEN, WITH_TOKEN
from tests.tokens.conversations import RandomPolicy, words

TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
            },
        },
    }
    for name in ("search", "weather")
]
CONVERSATIONS = 30


class LoggedEngine(DriftingEngine):
    """Appends the tokens of each generation to a file."""

    def __init__(self, log: Path, options: EngineOptions, **drift: Any) -> None:
        super().__init__(options, policy=RandomPolicy(thinking=0.8), **drift)
        self._log = log

    def generate(self, request: GenerationRequest) -> Generation:
        before = len(self.sampled)
        generation = super().generate(request)
        with self._log.open("a") as file:
            file.writelines(json.dumps(sampled._asdict()) + "\n" for sampled in self.sampled[before:])
        return generation


class Expected(NamedTuple):
    ids: tuple[int, ...]
    mask: tuple[int, ...]
    logprobs: tuple[float | None, ...]


def read_segments(log: Path) -> set[Expected]:
    """Return the segments of an engine's log: a call goes on from the one whose tokens its prompt begins with."""
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    calls.sort(key=lambda call: len(call["prompt_ids"]))
    chains: list[Expected] = []
    for call in calls:
        prompt, generated = tuple(call["prompt_ids"]), tuple(call["generated_ids"])
        earlier = [chain for chain in chains if prompt[: len(chain.ids)] == chain.ids]
        before = max(earlier, key=lambda chain: len(chain.ids), default=Expected((), (), ()))
        if earlier:
            chains.remove(before)
        added = len(prompt) - len(before.ids)
        mask = (*before.mask, *[0] * added, *[1] * len(generated))
        chains.append(
            Expected((*prompt, *generated), mask, (*before.logprobs, *[None] * added, *call["logprobs"]))
        )
    assert len(chains) == len(set(chains))
    return set(chains)


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncIterator[str]:
    taken = socket.create_server(("127.0.0.1", 0))
    listener = Listener(app)
    await listener.start(taken)
    try:
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"
    finally:
        await listener.stop(1.0)


@asynccontextmanager
async def gateway(folder: Path, engine: ASGIApp, **options: Any) -> AsyncIterator[str]:
    """A training model server in front of an engine, both at addresses of this machine."""
    async with listening(engine) as engine_url:
        before = bootstrap.current()
        bootstrap.set_current(Bootstrap("policy_model", {}, TOKEN, "cookie key", []))
        try:
            server = VLLMModel.standalone(
                name="policy_model",
                base_url=f"{engine_url}/v1",
                api_key="key",
                model="mock",
                return_token_id_information=True,
                **options,
            )
            server.server_client.global_config_dict = {"model_call_capture_dir": str(folder)}
            app = server.finish_app()
        finally:
            bootstrap.set_current(before)
        async with server.alive(), listening(app) as url:
            yield url


class ChatClient:
    """An agent on the `openai` package: it keeps role, content and tool calls of an answer, and nothing else."""

    def __init__(self, client: AsyncOpenAI, number: int) -> None:
        self._client = client
        self._rng = Random(number)
        self._streams = number % 2 == 1
        self._style = number // 2 % 3
        self.messages: list[Any] = [{"role": "user", "content": f"Task {number}: {words(self._rng, 6)}"}]
        if self._rng.random() < 0.5:
            self.messages.insert(0, {"role": "system", "content": words(self._rng, 8)})

    async def run(self) -> None:
        users = 2
        for _ in range(8):
            calls = await (self._stream() if self._streams else self._ask())
            for call in calls:
                output = {"role": "tool", "tool_call_id": call["id"], "content": words(self._rng, 10)}
                self.messages.append(output)
            if not calls:
                users -= 1
                if not users:
                    return
                self.messages.append({"role": "user", "content": words(self._rng, 6)})

    async def _ask(self) -> list[dict[str, Any]]:
        answer = await self._client.chat.completions.create(model="mock", messages=self.messages, tools=TOOLS)
        message = answer.choices[0].message
        calls = [call.model_dump() for call in message.tool_calls or ()]
        return self._accept(message.content, calls)

    async def _stream(self) -> list[dict[str, Any]]:
        text, calls = "", dict[int, dict[str, Any]]()
        async for chunk in await self._client.chat.completions.create(
            model="mock", messages=self.messages, tools=TOOLS, stream=True
        ):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for part in choice.delta.tool_calls or ():
                    call = calls.setdefault(part.index, {"id": "", "type": "function", "function": {}})
                    call["id"] = call["id"] or part.id
                    assert part.function is not None
                    for name, value in part.function.model_dump(exclude_none=True).items():
                        call["function"][name] = call["function"].get(name, "") + value
        return self._accept(text or None, list(calls.values()))

    def _accept(self, text: str | None, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Append the answer in the client's own spelling."""
        content: Any = text
        if self._style == 1:
            content = (text or "").rpartition("</think>")[2].strip()
        elif self._style == 2 and text is not None:
            content = [{"type": "text", "text": text}]
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = [self._spell(call) for call in calls] if self._style else calls
        self.messages.append(message)
        return calls

    def _spell(self, call: dict[str, Any]) -> dict[str, Any]:
        arguments = json.dumps(json.loads(call["function"]["arguments"]), indent=1, sort_keys=True)
        return {**call, "function": {**call["function"], "arguments": arguments}}


async def converse(url: str, count: int = CONVERSATIONS) -> list[dict[str, Any]]:
    """Let clients converse at the same time, each for a rollout of its own, and return the records."""
    transport = HttpTransport()

    async def control(method: str, path: str, body: dict[str, Any]) -> Any:
        headers = {**WITH_TOKEN, "content-type": "application/json"}
        return (await transport.send(url, Call(method, path, json.dumps(body).encode(), headers))).json()

    async def run_client(number: int) -> Any:
        rollout = await control("POST", "/ng-rollouts", {"rollout_id": f"r{number}"})
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key=rollout["key"], max_retries=0) as client:
            await ChatClient(client, number).run()
        return await control("GET", f"/ng-rollouts/r{number}", {})

    try:
        return list(await asyncio.gather(*map(run_client, range(count))))
    finally:
        await transport.close()


def trained(records: Iterable[dict[str, Any]]) -> list[Expected]:
    return [
        Expected(*(tuple(segment[name]) for name in ("token_ids", "loss_mask", "logprobs")))
        for record in records
        for segment in record["segments"]
    ]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "inline"])
async def test_a_conversation_is_one_segment_where_the_template_keeps_reasoning(
    tmp_path: Path, field: Any
) -> None:
    log, options = tmp_path / "engine.jsonl", EngineOptions(model="mock", reasoning_field=field)
    engine = LoggedEngine(log, options, template=MarkTemplate(), odd_share=0.0)
    async with gateway(tmp_path / "records", EngineApp(engine)) as url:
        records = await converse(url)
    assert [len(record["segments"]) for record in records] == [1] * CONVERSATIONS
    assert all(record["masked"] == {} for record in records)
    assert set(trained(records)) == read_segments(log)
    turns = [len(record["calls"]) for record in records]
    noted = [str(call.get("notes")) for record in records for call in record["calls"]]
    assert max(turns) > 4
    assert sum("restored_reasoning" in notes for notes in noted) > len(noted) / 6


async def test_exact_prompts_are_kept_for_tokens_that_no_tokenizer_chooses(tmp_path: Path) -> None:
    log = tmp_path / "engine.jsonl"
    engine = LoggedEngine(log, EngineOptions(model="mock"), template=MarkTemplate(), odd_share=0.5)
    async with gateway(tmp_path / "records", TokenInputApp(EngineApp(engine))) as url:
        records = await converse(url)
    assert [len(record["segments"]) for record in records] == [1] * CONVERSATIONS
    assert set(trained(records)) == read_segments(log)


async def test_a_template_that_drops_reasoning_begins_segments_and_they_are_exact(tmp_path: Path) -> None:
    log = tmp_path / "engine.jsonl"
    engine = LoggedEngine(log, EngineOptions(model="mock"), template=ForgetfulTemplate(), odd_share=0.0)
    async with gateway(tmp_path / "records", EngineApp(engine), exact_prompts=False) as url:
        records = await converse(url)
    assert sum(len(record["segments"]) for record in records) > CONVERSATIONS
    assert set(trained(records)) == read_segments(log)


async def test_the_option_leaves_requests_as_they_are(tmp_path: Path) -> None:
    log = tmp_path / "engine.jsonl"
    engine = LoggedEngine(log, EngineOptions(model="mock"), template=MarkTemplate(), odd_share=0.0)
    options = {"restores_reasoning": False, "exact_prompts": False}
    async with gateway(tmp_path / "records", EngineApp(engine), **options) as url:
        records = await converse(url)
    reasons = {segment["reason"] for record in records for segment in record["segments"]}
    assert SegmentReason.REASONING_DROPPED in reasons
    assert set(trained(records)) == read_segments(log)


async def test_generations_that_are_aborted_at_random_tokens_are_what_they_would_have_been(
    tmp_path: Path,
) -> None:
    log = tmp_path / "engine.jsonl"
    whole = LoggedEngine(log, EngineOptions(model="mock"), template=MarkTemplate(), odd_share=0.0)
    async with gateway(tmp_path / "whole", TokenInputApp(EngineApp(whole))) as url:
        await converse(url)
    faults = [{"do": "finish_abort", "at_token": token, "probability": 0.2} for token in (1, 4, 9)]
    options = EngineOptions(model="mock", faults=faults)
    aborted = LoggedEngine(tmp_path / "aborted.jsonl", options, template=MarkTemplate(), odd_share=0.0)
    async with gateway(tmp_path / "records", TokenInputApp(EngineApp(aborted))) as url:
        records = await converse(url)
    assert set(trained(records)) == read_segments(log)
    notes = [str(call.get("notes")) for record in records for call in record["calls"]]
    assert sum("continued_generation" in each for each in notes) > len(notes) / 4
