"""The mock engine's generation for a request, without HTTP and without waiting.

The steps are those of a real engine: render the prompt, count its tokens, refuse a prompt that does not fit,
generate, stop at a stop string, cut at the token budget, and split the rest into reasoning, text and calls. Ids and
logprobs are made only on request.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from random import Random
from typing import Any

import jsonschema_rs
import orjson

from nemo_gym import clock
from nemo_gym.mock_engine._plausible import plausible_value
from nemo_gym.mock_engine._template import OPENING, ChatTemplate, MarkTemplate, read_prompt
from nemo_gym.mock_engine.conversation import ModelReply, drop_until_last_user, list_called_tools, read_name
from nemo_gym.mock_engine.options import EngineOptions, build_policy
from nemo_gym.mock_engine.policies import MockPolicy, plausible_call
from nemo_gym.mock_engine.refusals import OVERFLOW_TEXTS, ContextSizes, Refusal
from nemo_gym.mock_engine.request import GenerationRequest, ToolChoice
from nemo_gym.mock_engine.tokenizer import PairTokenizer, Tokenizer, cut, pad

MOST_REMEMBERED_PROMPTS = 65_536
"""Distinct prompts whose repetitions are counted. When there are more, the counts restart."""


@dataclass(slots=True)
class GeneratedChoice:
    """One generated answer."""

    reply: ModelReply
    """The reply as the server's parsers report it."""
    finish_reason: str
    token_count: int
    stop_reason: str | None = None
    ids: list[int] | None = None
    """The generated ids, including the end of turn; None when not requested."""
    logprobs: list[float] | None = None
    """One logprob per generated id; None when not requested. NaN becomes null in JSON."""
    token_names: list[str] | None = None
    """Token names of the logprobs, if they differ from `ids` because of a fault."""


@dataclass(slots=True)
class Generation:
    """Everything generated for one request."""

    id: str
    created: int
    model: str
    prompt: str
    prompt_tokens: int
    choices: list[GeneratedChoice]
    prompt_ids: list[int] | None = None
    reported_tokens: int | None = None
    """The number of generated tokens in `usage`, if it differs from the true one because of a fault."""

    @property
    def completion_tokens(self) -> int:
        return sum(choice.token_count for choice in self.choices)


class Engine:
    """A model, its tokenizer, its template and its limits."""

    def __init__(
        self,
        options: EngineOptions,
        *,
        policy: MockPolicy | None = None,
        tokenizer: Tokenizer | None = None,
        template: ChatTemplate | None = None,
    ) -> None:
        self.options = options
        self.policy = policy or build_policy(options)
        self.tokenizer: Tokenizer = tokenizer or PairTokenizer()
        self.template: ChatTemplate = template or MarkTemplate()
        self._rng = LazyRandom()
        self._id_prefix = clock.hex_id()[:20]
        self._numbers = count(1)
        self._times_seen: dict[int, int] = {}

    def generate(self, request: GenerationRequest) -> Generation:
        """Generate for `request`. Raises Refusal for an unacceptable request, and the policy's exceptions."""
        if self.options.logprobs_mode == "raw":
            request.temperature = 1.0
        prompt = self.render_prompt(request)
        prompt_tokens = (
            self.tokenizer.count(prompt) if request.prompt_ids is None else len(request.prompt_ids)
        )
        room = self._room(request, prompt_tokens)
        begun = self._find_begun(request.prompt_ids or ())
        if begun:
            choices = [self._continue(request, prompt, begun, room)]
        else:
            seed = self._choose_seed(request, prompt)
            choices = [self._choice(request, room, seed + index) for index in range(request.choices)]
        prompt_ids = None
        if request.wants_ids:
            prompt_ids = self.tokenizer.encode(prompt) if request.prompt_ids is None else request.prompt_ids
        return Generation(
            id=f"{self._id_prefix}{next(self._numbers):012x}",
            created=int(clock.wall_clock()),
            model=self.options.model,
            prompt=prompt,
            prompt_tokens=prompt_tokens,
            choices=choices,
            prompt_ids=prompt_ids,
        )

    def abort(self, request: GenerationRequest, generation: Generation, tokens: int) -> None:
        """Cut a generation to its first tokens, as if it had been aborted after them."""
        for choice in generation.choices:
            written = self.template.reply(choice.reply)
            ids = self.tokenizer.encode(written) if choice.ids is None else choice.ids
            if tokens >= choice.token_count:
                continue
            choice.finish_reason, choice.stop_reason, choice.token_count = "abort", None, tokens
            choice.reply = self._parse_reply(request, self.tokenizer.decode(ids[:tokens]))
            if choice.ids is not None:
                choice.ids = choice.ids[:tokens]
            if choice.logprobs is not None:
                choice.logprobs = choice.logprobs[:tokens]

    def _find_begun(self, prompt: Sequence[int]) -> Sequence[int]:
        """Return the ids of the reply that a prompt in the mock's template has already begun."""
        opening = self.tokenizer.encode(OPENING)
        if len(opening) != 1 or opening[0] not in prompt:
            return ()
        last = len(prompt) - 1 - prompt[::-1].index(opening[0])
        return () if self.tokenizer.end_of_turn in prompt[last:] else prompt[last + 1 :]

    def _continue(
        self, request: GenerationRequest, prompt: str, begun: Sequence[int], room: int
    ) -> GeneratedChoice:
        """Go on with a reply: with the rest of the one to the prompt before it that begins so.

        Raises Refusal if the engine has generated none that begins so.
        """
        before = prompt[: prompt.rindex(OPENING) + len(OPENING)]
        messages, tools = read_prompt(before)
        count = len(begun)
        whole = replace(request, messages=messages, tools=tools, prompt_ids=None)
        whole.tool_choice = ToolChoice.AUTO if tools else ToolChoice.NONE
        whole.wants_ids = whole.wants_logprobs = True
        whole.min_tokens = request.min_tokens and request.min_tokens + count
        for seed in self._list_seeds(request, before, count):
            choice = self._choice(whole, room + count, seed)
            ids, logprobs = choice.ids or [], choice.logprobs or []
            if ids[:count] != list(begun):
                continue
            rest = [token for token in ids[count:] if token != self.tokenizer.end_of_turn]
            choice.reply, choice.token_count = ModelReply(self.tokenizer.decode(rest)), len(ids) - count
            choice.ids = ids[count:] if request.wants_ids else None
            choice.logprobs = logprobs[count:] if request.wants_logprobs else None
            return choice
        raise Refusal("The mock engine continues only a reply that it has begun.", param="prompt")

    def render_prompt(self, request: GenerationRequest) -> str:
        """Return the model's input text. Raises Refusal for messages that the template rejects."""
        if request.prompt is not None:
            return request.prompt
        try:
            if request.prompt_ids is not None:
                return self.tokenizer.decode(request.prompt_ids)
            return self.template.prompt(request.messages, request.tools)
        except ValueError as error:
            raise Refusal(str(error)) from error

    def measure_context(self, request: GenerationRequest) -> ContextSizes:
        """Return the token counts for a context-length error."""
        prompt_tokens = self.tokenizer.count(self.render_prompt(request))
        limit = self.options.max_model_len
        return ContextSizes(limit, prompt_tokens, request.max_tokens or max(1, limit - prompt_tokens))

    def _room(self, request: GenerationRequest, prompt_tokens: int) -> int:
        limit = self.options.max_model_len
        sizes = ContextSizes(limit, prompt_tokens, request.max_tokens or 0)
        if prompt_tokens >= limit:
            raise _refusal(2, sizes)
        if request.max_tokens is None:
            return limit - prompt_tokens
        if request.max_tokens > limit - prompt_tokens and not request.clamps_max_tokens:
            raise _refusal(3, sizes)
        return min(request.max_tokens, limit - prompt_tokens)

    def _choose_seed(self, request: GenerationRequest, prompt: str) -> int:
        """Return the request's seed. Without `seed`, each repetition of a prompt gets a new one.

        The n-th repetition of a prompt always gets the n-th draw, independent of other prompts in between.
        """
        digest = zlib.crc32(prompt.encode())
        nth = 0
        if request.seed is None and not request.is_greedy:
            if len(self._times_seen) >= MOST_REMEMBERED_PROMPTS:
                self._times_seen.clear()
            nth = self._times_seen.get(digest, 0)
            self._times_seen[digest] = nth + 1
        return self._build_seed(digest, request.seed, nth)

    def _list_seeds(self, request: GenerationRequest, prompt: str, begun: int) -> list[int]:
        """Return the seeds of all earlier repetitions of a prompt. A client adds to its seed the tokens begun."""
        digest = zlib.crc32(prompt.encode())
        times = self._times_seen.get(digest, 0)
        seed = request.seed - begun if request.seed is not None else None
        return [self._build_seed(digest, seed, nth) for nth in range(max(1, times))]

    def _build_seed(self, digest: int, seed: int | None, nth: int) -> int:
        return (((self.options.seed << 32 | digest) << 32) + (seed or 0) << 32) + (nth << 8)

    def _choice(self, request: GenerationRequest, room: int, seed: int) -> GeneratedChoice:
        self._rng.seed_lazily(seed)
        reply = self._reply(request)
        written = self.template.reply(reply)
        tokens = self.tokenizer.count(written) + 1
        least = self._least_tokens(request, room)
        if tokens < least:
            text = pad(self.tokenizer, reply.text, self.tokenizer.count(reply.text) + least - tokens)
            reply = replace(reply, text=text)
            written, tokens = self.template.reply(reply), least
        stop = _first_stop(written, request.stop)
        if stop is not None:
            return self._stop_at(request, written, room, stop)
        if tokens > room:
            return self._cut(request, written, room)
        calls = reply.tool_calls
        if len(calls) > 1 and not request.takes_many_calls:
            reply = replace(reply, tool_calls=calls[:1])
        is_call = bool(calls) and request.tool_choice is not ToolChoice.NAMED
        choice = GeneratedChoice(reply, "tool_calls" if is_call else "stop", tokens)
        self._add_tokens(request, choice, written, ends=True)
        return choice

    def _stop_at(self, request: GenerationRequest, written: str, room: int, stop: str) -> GeneratedChoice:
        start = written.index(stop)
        generated = written[: start + len(stop)]
        tokens = self.tokenizer.count(generated)
        if tokens > room:
            return self._cut(request, written, room)
        reply = self._parse_reply(request, generated if request.keeps_stop else written[:start])
        choice = GeneratedChoice(reply, "stop", tokens, stop_reason=stop)
        self._add_tokens(request, choice, generated, ends=False)
        return choice

    def _cut(self, request: GenerationRequest, written: str, room: int) -> GeneratedChoice:
        written = cut(self.tokenizer, written, room)
        choice = GeneratedChoice(self._parse_reply(request, written), "length", room)
        self._add_tokens(request, choice, written, ends=False)
        return choice

    def _parse_reply(self, request: GenerationRequest, written: str) -> ModelReply:
        if not request.messages:
            return ModelReply(written)
        return self.template.parse(written, finds_reasoning=self.options.reasoning_field != "inline")

    def _least_tokens(self, request: GenerationRequest, room: int) -> int:
        if request.ignores_end:
            return room
        wanted = self.options.tokens
        return min(room, max(request.min_tokens, round(wanted.draw(self._rng)) if wanted else 0))

    def _reply(self, request: GenerationRequest) -> ModelReply:
        """Return the policy's reply, adapted to the request's constraints."""
        messages = request.messages or [{"role": "user", "content": self.render_prompt(request)}]
        tools = request.tools if request.tool_choice is not ToolChoice.NONE else ()
        if request.named_tool is not None:
            tools = [tool for tool in tools if read_name(tool) == request.named_tool]
        reply = self._apply_tool_choice(request, self.policy.reply(messages, tools, self._rng))
        if request.allowed_texts and reply.text not in request.allowed_texts:
            reply = replace(reply, text=self._rng.choice(request.allowed_texts))
        if request.schema is not None and not reply.tool_calls:
            reply = replace(reply, text=_conform(reply.text, request.schema))
        if not reply.reasoning:
            return reply
        if not request.thinks:
            return replace(reply, reasoning="")
        if self.options.reasoning_field == "inline" or not request.messages:
            return ModelReply(self.template.reply(replace(reply, tool_calls=())), "", reply.tool_calls)
        return reply

    def _apply_tool_choice(self, request: GenerationRequest, reply: ModelReply) -> ModelReply:
        match request.tool_choice:
            case ToolChoice.NONE:
                if not reply.tool_calls:
                    return reply
                # An engine treats calls without declared tools as text, and deletes them under "none".
                text = reply.text if request.tools else self.template.reply(replace(reply, reasoning=""))
                return ModelReply(text, reply.reasoning)
            case ToolChoice.AUTO:
                return reply
            case ToolChoice.REQUIRED if reply.tool_calls:
                return reply
            case ToolChoice.REQUIRED:
                already = list_called_tools(drop_until_last_user(request.messages))
                fresh = [tool for tool in request.tools if read_name(tool) not in already]
                return ModelReply("", reply.reasoning, (plausible_call((fresh or request.tools)[0]),))
            case ToolChoice.NAMED:
                calls = [call for call in reply.tool_calls if call.name == request.named_tool][:1]
                named = next(tool for tool in request.tools if read_name(tool) == request.named_tool)
                return ModelReply("", reply.reasoning, tuple(calls) or (plausible_call(named),))

    def _add_tokens(
        self, request: GenerationRequest, choice: GeneratedChoice, written: str, *, ends: bool
    ) -> None:
        if not request.wants_ids and not request.wants_logprobs:
            return
        ids = self.tokenizer.encode(written)
        if ends:
            ids.append(self.tokenizer.end_of_turn)
        choice.ids = ids
        if request.wants_logprobs:
            choice.logprobs = [*_invent_logprobs(tuple(ids), request.temperature)]


@lru_cache(maxsize=1_024)  # texts repeat, and most of an answer's time would be this
def _invent_logprobs(ids: Sequence[int], temperature: float) -> Sequence[float]:
    return [invent_logprob(token, place) / temperature for place, token in enumerate(ids)]


def invent_logprob(token: int, place: int) -> float:
    """Return an invented log probability below 0, which depends only on the token and its position."""
    return -((token * 2_654_435_761 + place * 40_503) % 4_093 + 1) / 1_024


def _refusal(text: int, sizes: ContextSizes) -> Refusal:
    answer = OVERFLOW_TEXTS[text](sizes)
    return Refusal(answer.message, status=answer.status, param=answer.param)


def _first_stop(text: str, stops: Sequence[str]) -> str | None:
    found = [stop for stop in stops if stop in text]
    return min(found, key=text.index) if found else None


def _conform(text: str, schema: Any) -> str:
    """Return `text` if it is JSON that `schema` accepts, otherwise plausible JSON for `schema`."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return orjson.dumps(plausible_value(schema)).decode()
    return text if jsonschema_rs.is_valid(schema, value) else orjson.dumps(plausible_value(schema)).decode()


# --- Chance -----------------------------------------------------------------------------------------------------------
# A random generator that is seeded at its first draw. Seeding costs more than most replies, and most draw nothing.


class LazyRandom(Random):
    """`Random` with a seed that takes effect at the first draw."""

    _pending_seed: int | None = None

    def seed_lazily(self, seed: int) -> None:
        self._pending_seed = seed

    def random(self) -> float:
        self._settle()
        return super().random()

    def getrandbits(self, k: int, /) -> int:
        self._settle()
        return super().getrandbits(k)

    def _settle(self) -> None:
        if self._pending_seed is not None:
            seed, self._pending_seed = self._pending_seed, None
            self.seed(seed)
