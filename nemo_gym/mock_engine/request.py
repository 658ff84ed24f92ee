"""Generation requests, in one form for all three routes, and vLLM's checks of them.

`parse_chat`, `parse_completion` and (in `_responses_input`) `parse_responses` parse a route's JSON into a
`GenerationRequest`. They refuse what vLLM refuses, with its texts, and ignore what it ignores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import orjson

from nemo_gym.mock_engine.conversation import Message, Tool, read_name
from nemo_gym.mock_engine.refusals import EMPTY_TOOLS, TOOL_CHOICE_ALONE, Refusal

COMPLETION_MAX_TOKENS = 16
"""The token budget of `/v1/completions` without `max_tokens`; with null it is the rest of the context."""
MOST_LOGPROBS = 20
MOST_CHOICES = 64


class ToolChoice(Enum):
    NONE = auto()
    AUTO = auto()
    REQUIRED = auto()
    NAMED = auto()


@dataclass(slots=True)
class GenerationRequest:
    """One generation request. Not frozen, because frozen classes cost more to build on the hot path."""

    messages: Sequence[Message] = ()
    tools: Sequence[Tool] = ()
    tool_choice: ToolChoice = ToolChoice.NONE
    named_tool: str | None = None
    takes_many_calls: bool = True
    """False: all tool calls are generated, but only the first is reported."""
    prompt: str | None = None
    """The text prompt of `/v1/completions`, in place of messages."""
    prompt_ids: list[int] | None = None
    choices: int = 1
    max_tokens: int | None = None
    clamps_max_tokens: bool = False
    """True: a token budget beyond the context is lowered instead of refused."""
    min_tokens: int = 0
    ignores_end: bool = False
    stop: tuple[str, ...] = ()
    keeps_stop: bool = False
    seed: int | None = None
    is_greedy: bool = False
    temperature: float = 1.0
    """1 if the request has none, or 0."""
    schema: Mapping[str, Any] | None = None
    """The JSON schema that the text must conform to."""
    allowed_texts: Sequence[str] = ()
    """The text must be one of these."""
    thinks: bool = True
    shows_reasoning: bool = True
    wants_ids: bool = False
    wants_logprobs: bool = False
    top_logprobs: int = 0
    names_tokens_by_id: bool = False
    echoes: bool = False
    streams: bool = False
    streams_usage: bool = False
    payload: Mapping[str, Any] = field(default_factory=dict)


def parse_chat(payload: Mapping[str, Any]) -> GenerationRequest:
    """Parse a request of `/v1/chat/completions`. Raises Refusal."""
    messages = check_messages(payload.get("messages"), "messages")
    tools = chat_tools(payload)
    tool_choice, named_tool = chat_tool_choice(payload, tools)
    request = GenerationRequest(
        messages=messages,
        tools=tools,
        tool_choice=tool_choice,
        named_tool=named_tool,
        takes_many_calls=payload.get("parallel_tool_calls") is not False,
        max_tokens=positive(payload, "max_completion_tokens", positive(payload, "max_tokens")),
        schema=_schema(payload),
        allowed_texts=_read_allowed_texts(payload),
        thinks=_thinks(payload),
        shows_reasoning=payload.get("include_reasoning") is not False,
    )
    read_sampling(request, payload)
    _read_chat_extras(request, payload)
    return request


def _read_chat_extras(request: GenerationRequest, payload: Mapping[str, Any]) -> None:
    top = payload.get("top_logprobs", 0)
    if top and payload.get("logprobs") is not True:
        raise Refusal("when using `top_logprobs`, `logprobs` must be set to true.", param="top_logprobs")
    # To vLLM an explicit null means no logprobs, even with `logprobs: true`.
    request.wants_logprobs = payload.get("logprobs") is True and top is not None and request.shows_reasoning
    request.top_logprobs = _check_at_most(
        integer(payload, "top_logprobs", 0) or 0, MOST_LOGPROBS, "top_logprobs"
    )
    request.wants_ids = payload.get("return_token_ids") is True and request.shows_reasoning


def parse_completion(payload: Mapping[str, Any]) -> GenerationRequest:
    """Parse a request of `/v1/completions` with one prompt. Raises Refusal."""
    prompt = payload.get("prompt")
    is_ids = isinstance(prompt, list) and bool(prompt) and all(isinstance(token, int) for token in prompt)
    if not is_ids and not isinstance(prompt, str):
        raise Refusal("`prompt` must be one string or one list of token ids.", param="prompt")
    request = GenerationRequest(
        prompt=prompt if isinstance(prompt, str) else None,
        prompt_ids=prompt if isinstance(prompt, list) else None,
        max_tokens=positive(
            payload, "max_tokens", None if "max_tokens" in payload else COMPLETION_MAX_TOKENS
        ),
        schema=_schema(payload),
        allowed_texts=_read_allowed_texts(payload),
        echoes=payload.get("echo") is True,
        wants_ids=payload.get("return_token_ids") is True,
    )
    read_sampling(request, payload)
    logprobs = integer(payload, "logprobs")
    request.wants_logprobs = logprobs is not None
    request.top_logprobs = _check_at_most(logprobs or 0, MOST_LOGPROBS, "logprobs")
    return request


def read_sampling(request: GenerationRequest, payload: Mapping[str, Any]) -> None:
    """Fill in the fields that all routes share."""
    request.payload = payload
    request.choices = _check_at_most(positive(payload, "n") or 1, MOST_CHOICES, "n")
    request.min_tokens = integer(payload, "min_tokens", 0) or 0
    request.ignores_end = payload.get("ignore_eos") is True
    request.stop = _stop(payload.get("stop"))
    request.keeps_stop = payload.get("include_stop_str_in_output") is True
    request.seed = integer(payload, "seed")
    temperature = payload.get("temperature")
    request.is_greedy = temperature == 0
    if isinstance(temperature, int | float) and temperature > 0:
        request.temperature = float(temperature)
    request.names_tokens_by_id = payload.get("return_tokens_as_token_ids") is True
    request.streams = payload.get("stream") is True
    stream_options = payload.get("stream_options")
    if stream_options is not None:
        if not request.streams:
            raise Refusal("Stream options can only be defined when `stream=True`.", param="stream_options")
        request.streams_usage = (
            isinstance(stream_options, dict) and stream_options.get("include_usage") is True
        )


def check_messages(messages: object, param: str) -> Sequence[Message]:
    """Return the messages if all of them can be rendered. Raises Refusal."""
    if not isinstance(messages, list) or not messages:
        raise Refusal(f"`{param}` must be a list of at least one message.", param=param)
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refusal(f"Each of `{param}` must be an object with a `role`.", param=param)
        if message.get("tool_calls"):
            _check_calls(message["tool_calls"])
    return messages


def _check_calls(calls: object) -> None:
    """Check earlier calls' arguments: vLLM parses all of them on every turn and refuses invalid JSON."""
    for call in calls if isinstance(calls, list) else [None]:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Refusal(
                "Each of a message's `tool_calls` must have a `function` with a `name`.", param="messages"
            )
        try:
            orjson.loads(function["arguments"])
        except (KeyError, orjson.JSONDecodeError) as error:
            raise Refusal(
                f"The arguments of an earlier call of {function['name']!r} are not valid JSON: {error}",
                param="messages",
            ) from error


def chat_tools(payload: Mapping[str, Any]) -> Sequence[Tool]:
    """Return the declared tools. Raises Refusal."""
    tools = payload.get("tools")
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise Refusal("`tools` must be an array.", param="tools")
    if not tools:
        raise Refusal(EMPTY_TOOLS, param="tools")
    for tool in tools:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise Refusal("Each of `tools` must have a `function` with a `name`.", param="tools")
    return tools


def chat_tool_choice(payload: Mapping[str, Any], tools: Sequence[Tool]) -> tuple[ToolChoice, str | None]:
    """Return the mode of `tool_choice` and the name of a forced tool. Raises Refusal."""
    choice = payload.get("tool_choice")
    if choice == "none":
        return ToolChoice.NONE, None
    if choice is None:
        return (ToolChoice.AUTO if tools else ToolChoice.NONE), None
    if not tools:
        raise Refusal(TOOL_CHOICE_ALONE, param="tool_choice")
    if choice == "auto":
        return ToolChoice.AUTO, None
    if choice == "required":
        return ToolChoice.REQUIRED, None
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str) or name not in map(read_name, tools):
        raise Refusal(f"`tool_choice` names no tool of `tools`: {choice!r}.", param="tool_choice")
    return ToolChoice.NAMED, name


def integer(payload: Mapping[str, Any], name: str, default: int | None = None) -> int | None:
    """The integer in a field that may be left out or null. Raises Refusal."""
    value = payload.get(name)
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise Refusal(
        f"1 validation error: {{'type': 'int_parsing', 'loc': ('body', '{name}'), 'msg': 'Input should be a valid "
        f"integer', 'input': {value!r}}}",
        param=name,
    )


def positive(payload: Mapping[str, Any], name: str, default: int | None = None) -> int | None:
    value = integer(payload, name, default)
    if value is not None and value < 1:
        raise Refusal(
            f"{name.replace('max_completion_tokens', 'max_tokens')} must be at least 1, got {value}.",
            param=name,
        )
    return value


def _check_at_most(value: int, most: int, name: str) -> int:
    if not 0 <= value <= most:
        raise Refusal(f"`{name}` must be between 0 and {most}, got {value}.", param=name)
    return value


def _stop(stop: object) -> tuple[str, ...]:
    if stop is None:
        return ()
    texts = [stop] if isinstance(stop, str) else stop
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise Refusal("`stop` must be a string or an array of strings.", param="stop")
    return tuple(texts)


def _thinks(payload: Mapping[str, Any]) -> bool:
    template_options = payload.get("chat_template_kwargs")
    if isinstance(template_options, dict) and "enable_thinking" in template_options:
        return template_options["enable_thinking"] is not False
    return payload.get("reasoning_effort") != "none"


def _schema(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
    structured = payload.get("structured_outputs")
    if isinstance(structured, dict):
        beyond = structured.keys() - {"json", "choice"}
        if beyond:
            raise Refusal(
                f"The mock engine can't keep `structured_outputs` {sorted(beyond)}.",
                param="structured_outputs",
            )
        if isinstance(structured.get("json"), dict):
            return dict(structured["json"])
    wanted = payload.get("response_format")
    if not isinstance(wanted, dict) or wanted.get("type") == "text":
        return None
    if wanted.get("type") == "json_object":
        return {"type": "object"}
    described = wanted.get("json_schema")
    schema = described.get("schema") if isinstance(described, dict) else None
    if wanted.get("type") != "json_schema" or not isinstance(schema, dict):
        raise Refusal(f"`response_format` is not understood: {wanted!r}.", param="response_format")
    return schema


def _read_allowed_texts(payload: Mapping[str, Any]) -> Sequence[str]:
    structured = payload.get("structured_outputs")
    allowed = structured.get("choice") if isinstance(structured, dict) else None
    return allowed if isinstance(allowed, list) else ()
