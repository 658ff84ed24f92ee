"""All engine faults by name, which is the value of `do` in a fault plan.

There are four kinds: a fault replaces the answer, changes the generation, changes the answer's JSON, or disturbs the
delivery.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, TypeAlias

from nemo_gym.mock_engine.conversation import ModelReply, ToolCall
from nemo_gym.mock_engine.engine import GeneratedChoice, Generation
from nemo_gym.mock_engine.refusals import (
    BUDGET_OVERFLOWS,
    LOOKALIKES,
    OVERFLOW_TEXTS,
    ContextSizes,
    ErrorAnswer,
)
from nemo_gym.mock_engine.request import GenerationRequest
from nemo_gym.responses.logprobs import MISSING_LOGPROB

UNPARSED_CALL = '<tool_call>\n{"name": "lookup", "arguments": {"key": "value"}}\n</tool_call>'


@dataclass(frozen=True, slots=True)
class ErrorFault:
    """An error in the engine's envelope, or a proxy's page, instead of an answer."""

    summary: str
    error: Callable[[ContextSizes], ErrorAnswer]
    page: bytes | None = None
    """HTML in place of the envelope."""


@dataclass(frozen=True, slots=True)
class GenerationFault:
    """A change to the generation before rendering; it also works on streams."""

    summary: str
    change: Callable[[GenerationRequest, Generation], None]


@dataclass(frozen=True, slots=True)
class ResponseFault:
    """A change to the JSON of the response, or of every event of a stream."""

    summary: str
    change: Callable[[dict[str, Any]], None]


class Delivery(Enum):
    """A fault on the way of a request or its answer."""

    HANG = auto()
    RESET_BEFORE = auto()
    RESET_AFTER = auto()
    DRIP = auto()
    SHORT_BODY = auto()
    BROKEN_JSON = auto()
    INVALID_UTF8 = auto()


@dataclass(frozen=True, slots=True)
class DeliveryFault:
    summary: str
    delivery: Delivery


Fault: TypeAlias = ErrorFault | GenerationFault | ResponseFault | DeliveryFault


def _status(status: int, message: str, page: bytes | None = None) -> ErrorFault:
    return ErrorFault(f"HTTP {status}: {message}", lambda _: ErrorAnswer(message, status), page)


def _adjust_sizes(text: int, sizes: ContextSizes) -> ContextSizes:
    """Return token counts that are consistent with the error's text, although the request fits."""
    if text in BUDGET_OVERFLOWS:
        return replace(sizes, requested=max(sizes.requested, sizes.limit - sizes.prompt + 1))
    return replace(sizes, prompt=max(sizes.prompt, sizes.limit + 186))


def _overflow(text: int) -> ErrorFault:
    return ErrorFault(
        f"HTTP 400 with context-length text {text}",
        lambda sizes: OVERFLOW_TEXTS[text](_adjust_sizes(text, sizes)),
    )


def _lookalike(text: int) -> ErrorFault:
    return ErrorFault(
        f"HTTP 400 that is not about the context's length: {LOOKALIKES[text].message[:48]}…",
        lambda _: LOOKALIKES[text],
    )


ERROR_FAULTS: Mapping[str, ErrorFault] = {
    "http_429": _status(429, "Too many requests."),
    "http_500": _status(500, "Internal server error"),
    "http_502": _status(502, "Bad gateway", b"<html><body><h1>502 Bad Gateway</h1></body></html>"),
    "http_503": _status(503, "The model is still loading."),
    "http_504": _status(504, "Gateway timeout", b"<html><body><h1>504 Gateway Time-out</h1></body></html>"),
    **{f"overflow_{text}": _overflow(text) for text in OVERFLOW_TEXTS},
    **{f"lookalike_{text}": _lookalike(text) for text in LOOKALIKES},
}

DELIVERY_FAULTS: Mapping[str, DeliveryFault] = {
    "hang": DeliveryFault("Takes the request and never answers.", Delivery.HANG),
    "reset_before": DeliveryFault(
        "Resets the connection before the request is executed.", Delivery.RESET_BEFORE
    ),
    "reset_after": DeliveryFault(
        "Resets the connection after execution: before an answer, amid a stream.", Delivery.RESET_AFTER
    ),
    "drip": DeliveryFault("Sends the body byte by byte over `over_s` seconds.", Delivery.DRIP),
    "short_body": DeliveryFault(
        "Announces more bytes than it sends, then closes; ends a stream halfway.", Delivery.SHORT_BODY
    ),
    "broken_json": DeliveryFault("Sends JSON that breaks off, with the right length.", Delivery.BROKEN_JSON),
    "invalid_utf8": DeliveryFault("Sends JSON with a byte that is not UTF-8.", Delivery.INVALID_UTF8),
}


def _each_choice(
    change: Callable[[GenerationRequest, GeneratedChoice], None],
) -> Callable[[GenerationRequest, Generation], None]:
    def apply(request: GenerationRequest, generation: Generation) -> None:
        for choice in generation.choices:
            change(request, choice)

    return apply


def _finish(reason: str) -> Callable[[GenerationRequest, Generation], None]:
    def relabel(_: GenerationRequest, choice: GeneratedChoice) -> None:
        choice.finish_reason = reason

    return _each_choice(relabel)


def _length_as_tool_calls(request: GenerationRequest, generation: Generation) -> None:
    _finish("tool_calls")(request, generation)
    generation.reported_tokens = request.max_tokens


def _leave_call_unparsed(_: GenerationRequest, choice: GeneratedChoice) -> None:
    choice.reply, choice.finish_reason = ModelReply(UNPARSED_CALL, choice.reply.reasoning), "stop"


def _bad_arguments(_: GenerationRequest, choice: GeneratedChoice) -> None:
    calls = choice.reply.tool_calls
    choice.reply = replace(
        choice.reply, tool_calls=tuple(ToolCall(call.name, call.arguments[:-1] + ",") for call in calls)
    )


def _drop_tokens(_: GenerationRequest, generation: Generation) -> None:
    generation.prompt_ids = None
    for choice in generation.choices:
        choice.ids = choice.logprobs = None


def _short_by_one(_: GenerationRequest, choice: GeneratedChoice) -> None:
    if choice.logprobs:
        choice.logprobs.pop()


def _drop_end(_: GenerationRequest, choice: GeneratedChoice) -> None:
    for values in (choice.ids, choice.logprobs):
        if values:
            values.pop()


def _logprob(value: float) -> Callable[[GenerationRequest, Generation], None]:
    def spoil(_: GenerationRequest, choice: GeneratedChoice) -> None:
        if choice.logprobs:
            choice.logprobs[len(choice.logprobs) // 2] = value

    return _each_choice(spoil)


def _conflict_ids(_: GenerationRequest, choice: GeneratedChoice) -> None:
    if choice.ids:
        choice.token_names = [f"token_id:{token + 1}" for token in choice.ids]


GENERATION_FAULTS: Mapping[str, GenerationFault] = {
    "length_as_tool_calls": GenerationFault(
        'finish_reason "tool_calls" on an answer that used up max_tokens', _length_as_tool_calls
    ),
    "finish_abort": GenerationFault('finish_reason "abort" with HTTP 200', _finish("abort")),
    "finish_error": GenerationFault('finish_reason "error" with HTTP 200', _finish("error")),
    "finish_repetition": GenerationFault('finish_reason "repetition"', _finish("repetition")),
    "finish_length": GenerationFault('finish_reason "length" on a whole answer', _finish("length")),
    "tool_calls_as_stop": GenerationFault(
        'finish_reason "stop" on an answer with tool calls', _finish("stop")
    ),
    "unparsed_tool_call": GenerationFault(
        "a tool call left as text in the content", _each_choice(_leave_call_unparsed)
    ),
    "bad_arguments": GenerationFault("tool calls whose arguments are not JSON", _each_choice(_bad_arguments)),
    "tokens_missing": GenerationFault("no token ids, no logprobs", _drop_tokens),
    "logprobs_short_by_one": GenerationFault("one logprob less than ids", _each_choice(_short_by_one)),
    "end_token_missing": GenerationFault(
        "ids and logprobs without the end of the turn", _each_choice(_drop_end)
    ),
    "logprob_nan": GenerationFault("a NaN among the logprobs, null on the wire", _logprob(math.nan)),
    "logprob_missing": GenerationFault("a -9999.0 among the logprobs", _logprob(MISSING_LOGPROB)),
    "ids_conflict": GenerationFault(
        "token_id strings that differ from token_ids", _each_choice(_conflict_ids)
    ),
}


def _answer_list(answer: dict[str, Any]) -> str:
    return "choices" if "choices" in answer else "output"


def _replace_list(value: Any) -> Callable[[dict[str, Any]], None]:
    def change(answer: dict[str, Any]) -> None:
        answer[_answer_list(answer)] = value

    return change


def _each_message(change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def apply(answer: dict[str, Any]) -> None:
        for choice in answer.get("choices") or ():
            change(choice.get("message") or choice.get("delta") or {})
        for item in answer.get("output") or ():
            change(item)

    return apply


def _drop_message(answer: dict[str, Any]) -> None:
    for choice in answer.get("choices") or ():
        choice.pop("message", None)
        choice.pop("delta", None)


def _usage(value: dict[str, Any] | None) -> Callable[[dict[str, Any]], None]:
    def change(answer: dict[str, Any]) -> None:
        if answer.get("usage"):
            answer["usage"] = value

    return change


def _partial_usage(answer: dict[str, Any]) -> None:
    usage = answer.get("usage") or {}
    for name in [name for name in usage if name not in ("prompt_tokens", "input_tokens")]:
        del usage[name]


def _set_field(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return _each_message(lambda message: message.update({name: value}) if message else None)


def _content_as_parts(message: dict[str, Any]) -> None:
    if isinstance(message.get("content"), str):
        message["content"] = [{"type": "text", "text": message["content"]}]


def _prompt_ids_on_choice(answer: dict[str, Any]) -> None:
    ids = answer.pop("prompt_token_ids", None)
    for choice in answer.get("choices") or () if ids is not None else ():
        choice["prompt_token_ids"] = ids


def _tokens_on_message(answer: dict[str, Any]) -> None:
    prompt_ids = answer.pop("prompt_token_ids", None)
    for choice in answer.get("choices") or ():
        message = choice.get("message")
        if message is not None and "token_ids" in choice:
            logprobs = (choice.get("logprobs") or {}).get("content") or []
            message["prompt_token_ids"] = prompt_ids
            message["generation_token_ids"] = choice.pop("token_ids")
            message["generation_log_probs"] = [token["logprob"] for token in logprobs]


ANSWER_FAULTS: Mapping[str, ResponseFault] = {
    "choices_empty": ResponseFault("an empty list of choices (or output items)", _replace_list([])),
    "choices_null": ResponseFault("choices (or output) null", _replace_list(None)),
    "message_missing": ResponseFault("choices without a message", _drop_message),
    "usage_null": ResponseFault("usage null", _usage(None)),
    "usage_partial": ResponseFault("usage with the prompt's tokens only", _partial_usage),
    "content_null": ResponseFault("content null", _set_field("content", None)),
    "content_empty": ResponseFault("content an empty string", _set_field("content", "")),
    "content_parts": ResponseFault("content as a list of parts", _each_message(_content_as_parts)),
    "tool_calls_empty": ResponseFault("tool_calls an empty list", _set_field("tool_calls", [])),
    "tool_calls_null": ResponseFault("tool_calls null", _set_field("tool_calls", None)),
    "prompt_ids_on_choice": ResponseFault("prompt_token_ids on the choice", _prompt_ids_on_choice),
    "tokens_on_message": ResponseFault(
        "ids and logprobs on the message, as NeMo RL has them", _tokens_on_message
    ),
}

FAULTS: Mapping[str, Fault] = {**ERROR_FAULTS, **DELIVERY_FAULTS, **GENERATION_FAULTS, **ANSWER_FAULTS}
"""All faults by name."""
