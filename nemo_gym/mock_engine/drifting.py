"""An engine with token drift: token ids change when text is decoded and encoded again, as on real engines.

- The policy samples non-canonical tokens: some pairs of bytes become two tokens, so re-encoding the history gives
  other ids than the sampled ones.
- The chat template changes earlier turns: `ForgetfulTemplate` drops their reasoning, `RespacingTemplate` reformats
  the JSON of their tool calls.

The engine keeps the true prompt and sampled ids, before any fault changes the answer, as ground truth for tests of
training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from nemo_gym.mock_engine._template import ChatTemplate, MarkTemplate
from nemo_gym.mock_engine.conversation import Message, Tool
from nemo_gym.mock_engine.engine import Engine, GeneratedChoice, Generation, invent_logprob
from nemo_gym.mock_engine.options import EngineOptions
from nemo_gym.mock_engine.policies import MockPolicy
from nemo_gym.mock_engine.request import GenerationRequest
from nemo_gym.mock_engine.tokenizer import FIRST_SINGLE, PairTokenizer


class Sampled(NamedTuple):
    """The true tokens of one generation. The two generated lists have equal lengths."""

    prompt_ids: list[int]
    generated_ids: list[int]
    logprobs: list[float]


class DriftingEngine(Engine):
    """Samples some texts as non-canonical tokens, and records all tokens in `sampled`."""

    def __init__(
        self,
        options: EngineOptions,
        *,
        policy: MockPolicy | None = None,
        template: ChatTemplate | None = None,
        odd_share: float = 0.3,
    ) -> None:
        """`odd_share`: the share of replies with non-canonical tokens, from 0 to 1."""
        super().__init__(options, policy=policy, tokenizer=PairTokenizer(), template=template)
        self._odd_share = odd_share
        self.sampled: list[Sampled] = []

    def generate(self, request: GenerationRequest) -> Generation:
        generation = super().generate(request)
        for choice in generation.choices:
            if choice.ids is not None and generation.prompt_ids is not None:
                truth = (generation.prompt_ids, choice.ids, choice.logprobs or [])
                self.sampled.append(Sampled(*map(list, truth)))  # type: ignore[arg-type]
        return generation

    def _add_tokens(
        self, request: GenerationRequest, choice: GeneratedChoice, written: str, *, ends: bool
    ) -> None:
        super()._add_tokens(request, choice, written, ends=ends)
        if choice.ids is None or not ends or self._rng.random() >= self._odd_share:
            return
        pairs = [place for place, token in enumerate(choice.ids) if token < FIRST_SINGLE]
        for place in sorted(self._rng.sample(pairs, min(len(pairs), 2)), reverse=True):
            token = choice.ids[place]
            choice.ids[place : place + 1] = [FIRST_SINGLE + (token >> 8), FIRST_SINGLE + (token & 255)]
        choice.token_count = len(choice.ids)
        if choice.logprobs is not None:
            choice.logprobs = [invent_logprob(token, place) for place, token in enumerate(choice.ids)]


class ForgetfulTemplate(MarkTemplate):
    """Drops the reasoning of turns before the last user message, as templates of reasoning models do."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool], *, opens_reply: bool = True) -> str:
        users = [place for place, message in enumerate(messages) if message["role"] == "user"]
        last = users[-1] if users else 0
        kept = [
            _drop_reasoning(message) if place < last else message for place, message in enumerate(messages)
        ]
        return super().prompt(kept, tools, opens_reply=opens_reply)


class RespacingTemplate(MarkTemplate):
    """Reformats the arguments of earlier tool calls, with a space after each comma and colon."""

    def prompt(self, messages: Sequence[Message], tools: Sequence[Tool], *, opens_reply: bool = True) -> str:
        return super().prompt([_respace(message) for message in messages], tools, opens_reply=opens_reply)


def _drop_reasoning(message: Message) -> Message:
    return {name: value for name, value in message.items() if name not in ("reasoning", "reasoning_content")}


def _respace(message: Message) -> Message:
    calls = message.get("tool_calls")
    return {**message, "tool_calls": [_respace_call(call) for call in calls]} if calls else message


def _respace_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    arguments = orjson.loads(function["arguments"])
    spaced = ", ".join(
        f"{orjson.dumps(name).decode()}: {orjson.dumps(value).decode()}" for name, value in arguments.items()
    )
    return {**call, "function": {**function, "arguments": f"{{{spaced}}}"}}
