"""On engines that can be fed ids, no template and no tokenizer makes a conversation drift."""

from __future__ import annotations

import asyncio
from functools import partial
from random import Random
from typing import Any

import orjson
import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from nemo_gym.engines.tokens.exact_prompts import TokenInput, message_in
from nemo_gym.mock_engine._template import MarkTemplate
from nemo_gym.mock_engine.app import EngineApp
from nemo_gym.mock_engine.drifting import ForgetfulTemplate, RespacingTemplate
from nemo_gym.mock_engine.token_input import DERENDER, GENERATE, PREFIX_FIELD, RENDER, TokenInputApp
from nemo_gym.rows.calls import read_calls
from nemo_gym.tokens.reasons import SegmentReason
from tests.tokens.checks import check_exact, read_as_nemo_rl
from tests.tokens.conversations import Conversation, Ground, RandomPolicy, converse

FEEDS = {
    "derender": partial(TokenInputApp),
    "detokenize": partial(TokenInputApp, derenders=False),
    "required_prefix": partial(TokenInputApp, generates=False, derenders=False, takes_prefix=True),
}


@pytest.mark.parametrize("template", [MarkTemplate(), ForgetfulTemplate()])
@pytest.mark.parametrize("feed", FEEDS)
async def test_an_exact_prompt_cannot_drift(feed: str, template: MarkTemplate) -> None:
    ground = Ground(around=FEEDS[feed], template=template, odd_share=0.5)
    rng = Random(feed)
    for number in range(30):
        talk = await converse(ground, rng, str(number))
        (segment,) = check_exact(talk.row, talk.truths)
        assert segment.calls == tuple(range(len(talk.truths)))
        assert len(read_as_nemo_rl(talk.row)) == segment.sampled
    requests = ground.app.stats.requests
    if feed == "required_prefix":
        assert requests[GENERATE] == 0
    else:
        assert 0 < requests[GENERATE] < requests[RENDER]
        assert (requests[DERENDER] > 0) is (feed == "derender")
        assert (requests["/detokenize"] > 0) is (feed == "detokenize")


class Undescribed:
    """An engine without an OpenAPI document, which takes the prefix as a field or from the last answer."""

    def __init__(self, app: EngineApp) -> None:
        self._engine = TokenInputApp(app, generates=False, derenders=False, takes_prefix=True)
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope["path"])
        if scope["path"] == "/openapi.json":
            scope = {**scope, "path": "/no_such_route"}
        request = Request(scope, receive)
        body = orjson.loads(await request.body() or b"{}")
        for message in body.get("messages", ()):
            if "prompt_token_ids" in message:
                body[PREFIX_FIELD] = message.pop("prompt_token_ids") + message.pop("generation_token_ids")
        sent = orjson.dumps(body)

        async def replayed() -> Message:
            return {"type": "http.request", "body": sent, "more_body": False}

        headers = [pair for pair in scope["headers"] if pair[0] != b"content-length"]
        await self._engine({**scope, "headers": headers}, replayed, send)


@pytest.mark.parametrize("method", ["required_prefix", "history_ids"])
async def test_a_configured_method_keeps_prompts_exact_without_a_probe(method: str) -> None:
    engines: list[Undescribed] = []

    def around(app: EngineApp) -> Undescribed:
        engines.append(Undescribed(app))
        return engines[0]

    ground = Ground(around=around, template=RespacingTemplate(), odd_share=0.5, exact_prompts=method)
    rng = Random(method)
    turns = 0
    for number in range(10):
        talk = await converse(ground, rng, str(number))
        (segment,) = check_exact(talk.row, talk.truths)
        turns = max(turns, len(segment.calls))
    assert turns > 1
    assert "/openapi.json" not in engines[0].asked


@pytest.mark.parametrize("reads_history", [True, False])
async def test_after_the_first_drift_the_engine_is_asked_once_whether_it_reads_ids_of_the_history(
    reads_history: bool,
) -> None:
    ground = Ground(
        around=Undescribed if reads_history else lambda app: app, template=RespacingTemplate(), odd_share=0.5
    )
    segments, turns = [], 0
    for number in range(15):
        talk = await converse(ground, Random(number), str(number))
        segments.append(len(check_exact(talk.row, talk.truths)))
        turns += len(talk.truths)
    assert len(ground.sampled) == turns + 1
    drifted = [count > 1 for count in segments]
    assert sum(drifted) == 1 if reads_history else sum(drifted) > 3


async def test_an_engine_that_does_not_drift_is_not_asked() -> None:
    ground = Ground()
    talks = [await converse(ground, Random(number), str(number)) for number in range(10)]
    assert len(ground.sampled) == sum(len(talk.truths) for talk in talks)


async def test_a_turn_that_does_not_drift_is_an_ordinary_request() -> None:
    ground = Ground(around=FEEDS["derender"])
    for number in range(5):
        await converse(ground, Random(number), str(number))
    assert ground.app.stats.requests[GENERATE] == 0


async def test_the_engine_is_asked_once_how_it_can_be_fed() -> None:
    ground = Ground()
    await asyncio.gather(*(Conversation(ground, str(number)).ask() for number in range(20)))
    assert ground.app.stats.requests["/openapi.json"] == 1


async def test_without_a_way_in_drift_is_a_segment() -> None:
    ground = Ground(around=FEEDS["derender"], template=RespacingTemplate(), exact_prompts=False)
    talks = [await converse(ground, Random(0), str(number)) for number in range(5)]
    assert any(len(check_exact(talk.row, talk.truths)) > 1 for talk in talks)
    assert ground.app.stats.requests[RENDER] == 0


@pytest.mark.parametrize("feed", FEEDS)
async def test_what_an_agent_changed_stays_changed(feed: str) -> None:
    ground = Ground(around=FEEDS[feed], policy=RandomPolicy(thinking=1.0), odd_share=1.0)
    talk = Conversation(ground, "session")
    talk.answer_tools(await talk.ask(), Random(0))
    talk.history = [item for item in talk.history if item.get("type") != "reasoning"]
    talk.say("Go on.")
    await talk.ask()
    segments = check_exact(talk.row, talk.truths)
    assert [segment.reason for segment in segments] == [None, SegmentReason.REASONING_DROPPED]


@pytest.mark.parametrize("feed", FEEDS)
async def test_after_an_answer_that_was_cut_off_the_engine_renders(feed: str) -> None:
    ground = Ground(around=FEEDS[feed], policy=RandomPolicy(thinking=0.0, turns=0), odd_share=1.0)
    talk = Conversation(ground, "session")
    await talk.ask(max_output_tokens=2)
    talk.say("Go on.")
    await talk.ask()
    check_exact(talk.row, talk.truths)
    assert read_calls(talk.row)[0].finish == "truncated"
    assert ground.app.stats.requests[RENDER] == 0


@pytest.mark.parametrize(
    ("feed", "way"),
    [
        ("derender", TokenInput.GENERATE),
        ("required_prefix", TokenInput.REQUIRED_PREFIX),
        (None, TokenInput.NONE),
    ],
)
async def test_the_preflight_says_how_the_engine_can_be_fed(feed: str | None, way: TokenInput) -> None:
    ground = Ground(around=FEEDS[feed]) if feed else Ground()
    assert (await ground.server.preflight())["training"]["token_input"] == way


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ("Hi.", "Hi.", []),
        ('<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', None, [("f", '{"a":1}')]),
        ('So:\n<tool_call>{"name": "f"}</tool_call>', "So:", [("f", "{}")]),
        ('<tool_call>{"name": "f", </tool_call>', '<tool_call>{"name": "f", </tool_call>', []),
        ("<think>hm</think>Hi.", "<think>hm</think>Hi.", []),
    ],
)
def test_a_message_is_read_out_of_a_text(text: str, content: str | None, calls: list[Any]) -> None:
    message = message_in(text, has_tools=True)
    assert message["content"] == content
    found = [
        (call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls", [])
    ]
    assert found == calls
    assert message_in(text, has_tools=False)["content"] == text
