"""What the mock engine generates for a request: pure, without HTTP and without waiting.

The order is a real engine's: render the prompt, count it, refuse what doesn't fit, generate, stop at a stop
string, cut at the token budget, and split what is left into reasoning, text and calls. Ids and logprobs are
made only when asked for.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import jsonschema_rs
import orjson

from nemo_gym import clock as sources
from nemo_gym.mock_engine._late_random import LateRandom
from nemo_gym.mock_engine._plausible import plausible_value
from nemo_gym.mock_engine._template import ChatTemplate, MarkTemplate
from nemo_gym.mock_engine.conversation import Reply, called_tools, name_of, since_last_user
from nemo_gym.mock_engine.options import EngineOptions, policy_of
from nemo_gym.mock_engine.policies import Policy, plausible_call
from nemo_gym.mock_engine.refusals import OVERFLOW_TEXTS, ContextSizes, Refusal
from nemo_gym.mock_engine.request import Asked, ToolChoice
from nemo_gym.mock_engine.tokenizer import PairTokenizer, Tokenizer, cut, pad

MOST_REMEMBERED_PROMPTS = 65_536
"""Of how many prompts the engine knows how often they came; then it starts counting anew."""


@dataclass(slots=True)
class Choice:
    """One generated answer."""

    reply: Reply
    """As the server's parsers report it."""
    finish_reason: str
    token_count: int
    stop_reason: str | None = None
    ids: list[int] | None = None
    """The generated ids, end of turn included; None when not asked for."""
    logprobs: list[float] | None = None
    """One a generated id; None when not asked for. NaN goes over the wire as null."""
    token_names: list[str] | None = None
    """What the logprobs' tokens are called, where that isn't what `ids` say."""


@dataclass(slots=True)
class Generation:
    """Everything generated for one request."""

    id: str
    created: int
    model: str
    prompt: str
    prompt_tokens: int
    choices: list[Choice]
    prompt_ids: list[int] | None = None
    reported_tokens: int | None = None
    """The number of generated tokens that `usage` tells, where it isn't the true one."""

    @property
    def completion_tokens(self) -> int:
        return sum(choice.token_count for choice in self.choices)


class Engine:
    """A model, its tokenizer, its template and its limits."""

    def __init__(
        self,
        options: EngineOptions,
        *,
        policy: Policy | None = None,
        tokenizer: Tokenizer | None = None,
        template: ChatTemplate | None = None,
    ) -> None:
        self.options = options
        self.policy = policy or policy_of(options)
        self.tokenizer: Tokenizer = tokenizer or PairTokenizer()
        self.template: ChatTemplate = template or MarkTemplate()
        self._rng = LateRandom()
        self._id_prefix = sources.hex_id()[:20]
        self._numbers = count(1)
        self._times_seen: dict[int, int] = {}

    def generate(self, asked: Asked) -> Generation:
        """The answer to `asked`. Raises Refusal for what the engine doesn't accept, and what its policy raises."""
        if self.options.logprobs_mode == "raw":
            asked.temperature = 1.0
        prompt = self.prompt_of(asked)
        prompt_tokens = self.tokenizer.count(prompt) if asked.prompt_ids is None else len(asked.prompt_ids)
        room = self._room(asked, prompt_tokens)
        seed = self._seed_of(asked, prompt)
        choices = [self._choice(asked, room, seed + index) for index in range(asked.choices)]
        prompt_ids = None
        if asked.wants_ids:
            prompt_ids = self.tokenizer.encode(prompt) if asked.prompt_ids is None else asked.prompt_ids
        return Generation(
            id=f"{self._id_prefix}{next(self._numbers):012x}",
            created=int(sources.wall_clock()),
            model=self.options.model,
            prompt=prompt,
            prompt_tokens=prompt_tokens,
            choices=choices,
            prompt_ids=prompt_ids,
        )

    def prompt_of(self, asked: Asked) -> str:
        """The text that the model reads. Raises Refusal for messages that the template doesn't take."""
        if asked.prompt is not None:
            return asked.prompt
        try:
            if asked.prompt_ids is not None:
                return self.tokenizer.decode(asked.prompt_ids)
            return self.template.prompt(asked.messages, asked.tools)
        except ValueError as error:
            raise Refusal(str(error)) from error

    def sizes_of(self, asked: Asked) -> ContextSizes:
        """The numbers in an error about the context."""
        prompt_tokens = self.tokenizer.count(self.prompt_of(asked))
        limit = self.options.max_model_len
        return ContextSizes(limit, prompt_tokens, asked.max_tokens or max(1, limit - prompt_tokens))

    def _room(self, asked: Asked, prompt_tokens: int) -> int:
        limit = self.options.max_model_len
        sizes = ContextSizes(limit, prompt_tokens, asked.max_tokens or 0)
        if prompt_tokens >= limit:
            raise _refusal(2, sizes)
        if asked.max_tokens is None:
            return limit - prompt_tokens
        if asked.max_tokens > limit - prompt_tokens and not asked.clamps_max_tokens:
            raise _refusal(3, sizes)
        return min(asked.max_tokens, limit - prompt_tokens)

    def _seed_of(self, asked: Asked, prompt: str) -> int:
        """The same for the same request; without a seed of its own, a new one each time its prompt comes back.

        The n-th time a prompt comes it gets the n-th draw, in whatever order different prompts arrive.
        """
        digest = zlib.crc32(prompt.encode())
        nth = 0
        if asked.seed is None and not asked.is_greedy:
            if len(self._times_seen) >= MOST_REMEMBERED_PROMPTS:
                self._times_seen.clear()
            nth = self._times_seen.get(digest, 0)
            self._times_seen[digest] = nth + 1
        return (((self.options.seed << 32 | digest) << 32) + (asked.seed or 0) << 32) + (nth << 8)

    def _choice(self, asked: Asked, room: int, seed: int) -> Choice:
        self._rng.seed_late(seed)
        reply = self._reply(asked)
        written = self.template.reply(reply)
        tokens = self.tokenizer.count(written) + 1
        least = self._least_tokens(asked, room)
        if tokens < least:
            text = pad(self.tokenizer, reply.text, self.tokenizer.count(reply.text) + least - tokens)
            reply = replace(reply, text=text)
            written, tokens = self.template.reply(reply), least
        stop = _first_stop(written, asked.stop)
        if stop is not None:
            return self._stopped(asked, written, room, stop)
        if tokens > room:
            return self._cut(asked, written, room)
        calls = reply.tool_calls
        if len(calls) > 1 and not asked.takes_many_calls:
            reply = replace(reply, tool_calls=calls[:1])
        is_call = bool(calls) and asked.tool_choice is not ToolChoice.NAMED
        choice = Choice(reply, "tool_calls" if is_call else "stop", tokens)
        self._add_tokens(asked, choice, written, ends=True)
        return choice

    def _stopped(self, asked: Asked, written: str, room: int, stop: str) -> Choice:
        start = written.index(stop)
        generated = written[: start + len(stop)]
        tokens = self.tokenizer.count(generated)
        if tokens > room:
            return self._cut(asked, written, room)
        reply = self._parsed(asked, generated if asked.keeps_stop else written[:start])
        choice = Choice(reply, "stop", tokens, stop_reason=stop)
        self._add_tokens(asked, choice, generated, ends=False)
        return choice

    def _cut(self, asked: Asked, written: str, room: int) -> Choice:
        written = cut(self.tokenizer, written, room)
        choice = Choice(self._parsed(asked, written), "length", room)
        self._add_tokens(asked, choice, written, ends=False)
        return choice

    def _parsed(self, asked: Asked, written: str) -> Reply:
        if not asked.messages:
            return Reply(written)
        return self.template.parse(written, finds_reasoning=self.options.reasoning_field != "inline")

    def _least_tokens(self, asked: Asked, room: int) -> int:
        if asked.ignores_end:
            return room
        wanted = self.options.tokens
        return min(room, max(asked.min_tokens, round(wanted.draw(self._rng)) if wanted else 0))

    def _reply(self, asked: Asked) -> Reply:
        """What the policy says, made to keep what the request demands of any answer."""
        messages = asked.messages or [{"role": "user", "content": self.prompt_of(asked)}]
        tools = asked.tools if asked.tool_choice is not ToolChoice.NONE else ()
        if asked.named_tool is not None:
            tools = [tool for tool in tools if name_of(tool) == asked.named_tool]
        reply = self._with_tool_choice(asked, self.policy.reply(messages, tools, self._rng))
        if asked.allowed_texts and reply.text not in asked.allowed_texts:
            reply = replace(reply, text=self._rng.choice(asked.allowed_texts))
        if asked.schema is not None and not reply.tool_calls:
            reply = replace(reply, text=_conforming(reply.text, asked.schema))
        if not reply.reasoning:
            return reply
        if not asked.thinks:
            return replace(reply, reasoning="")
        if self.options.reasoning_field == "inline" or not asked.messages:
            return Reply(self.template.reply(replace(reply, tool_calls=())), "", reply.tool_calls)
        return reply

    def _with_tool_choice(self, asked: Asked, reply: Reply) -> Reply:
        match asked.tool_choice:
            case ToolChoice.NONE:
                if not reply.tool_calls:
                    return reply
                # Calls without declared tools are plain text to an engine; with "none" it deletes them.
                text = reply.text if asked.tools else self.template.reply(replace(reply, reasoning=""))
                return Reply(text, reply.reasoning)
            case ToolChoice.AUTO:
                return reply
            case ToolChoice.REQUIRED if reply.tool_calls:
                return reply
            case ToolChoice.REQUIRED:
                already = called_tools(since_last_user(asked.messages))
                fresh = [tool for tool in asked.tools if name_of(tool) not in already]
                return Reply("", reply.reasoning, (plausible_call((fresh or asked.tools)[0]),))
            case ToolChoice.NAMED:
                calls = [call for call in reply.tool_calls if call.name == asked.named_tool][:1]
                named = next(tool for tool in asked.tools if name_of(tool) == asked.named_tool)
                return Reply("", reply.reasoning, tuple(calls) or (plausible_call(named),))

    def _add_tokens(self, asked: Asked, choice: Choice, written: str, *, ends: bool) -> None:
        if not asked.wants_ids and not asked.wants_logprobs:
            return
        ids = self.tokenizer.encode(written)
        if ends:
            ids.append(self.tokenizer.end_of_turn)
        choice.ids = ids
        if asked.wants_logprobs:
            choice.logprobs = [
                logprob_of(token, place) / asked.temperature for place, token in enumerate(ids)
            ]


def logprob_of(token: int, place: int) -> float:
    """The log probability of a generated token: made up, below 0, and the same whenever it is asked again."""
    return -((token * 2_654_435_761 + place * 40_503) % 4_093 + 1) / 1_024


def _refusal(text: int, sizes: ContextSizes) -> Refusal:
    answer = OVERFLOW_TEXTS[text](sizes)
    return Refusal(answer.message, status=answer.status, param=answer.param)


def _first_stop(text: str, stops: Sequence[str]) -> str | None:
    found = [stop for stop in stops if stop in text]
    return min(found, key=text.index) if found else None


def _conforming(text: str, schema: Any) -> str:
    """`text` where it is JSON that `schema` accepts, otherwise JSON that is."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.dumps(plausible_value(schema)).decode()
    return text if jsonschema_rs.is_valid(schema, value) else orjson.dumps(plausible_value(schema)).decode()
