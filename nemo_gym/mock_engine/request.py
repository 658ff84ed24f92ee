"""A generation as a client asks for it, the same for all three routes, and the checks that vLLM makes first.

`parse_chat`, `parse_completion` and (in `responses_input`) `parse_responses` read a route's JSON into an
`Asked`. What an engine refuses is refused here, in its words; fields that it ignores are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import orjson

from nemo_gym.mock_engine.conversation import Message, Tool, name_of
from nemo_gym.mock_engine.refusals import EMPTY_TOOLS, TOOL_CHOICE_ALONE, Refusal

COMPLETION_MAX_TOKENS = 16
"""What `/v1/completions` generates when the request doesn't say."""
MOST_LOGPROBS = 20
MOST_CHOICES = 64


class ToolChoice(Enum):
    NONE = auto()
    AUTO = auto()
    REQUIRED = auto()
    NAMED = auto()


@dataclass(slots=True)
class Asked:
    """One generation request. Built once a request on the hot path, hence not frozen."""

    messages: Sequence[Message] = ()
    tools: Sequence[Tool] = ()
    tool_choice: ToolChoice = ToolChoice.NONE
    named_tool: str | None = None
    takes_many_calls: bool = True
    """False: only the first tool call is reported, though all of them are generated."""
    prompt: str | None = None
    """The prompt as `/v1/completions` got it, in place of messages rendered by the template."""
    prompt_ids: list[int] | None = None
    choices: int = 1
    max_tokens: int | None = None
    clamps_max_tokens: bool = False
    """True: a budget that doesn't fit into the context is lowered instead of refused."""
    min_tokens: int = 0
    ignores_end: bool = False
    stop: tuple[str, ...] = ()
    keeps_stop: bool = False
    seed: int | None = None
    is_greedy: bool = False
    temperature: float = 1.0
    """1 also where the request names none, or 0."""
    schema: Mapping[str, Any] | None = None
    """What the text has to be JSON of."""
    allowed_texts: Sequence[str] = ()
    """The text has to be one of these."""
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


def parse_chat(payload: Mapping[str, Any]) -> Asked:
    """The request of `/v1/chat/completions`. Raises Refusal."""
    messages = checked_messages(payload.get("messages"), "messages")
    tools = chat_tools(payload)
    tool_choice, named_tool = chat_tool_choice(payload, tools)
    asked = Asked(
        messages=messages,
        tools=tools,
        tool_choice=tool_choice,
        named_tool=named_tool,
        takes_many_calls=payload.get("parallel_tool_calls") is not False,
        max_tokens=positive(payload, "max_completion_tokens", positive(payload, "max_tokens")),
        schema=_schema(payload),
        allowed_texts=_allowed_texts(payload),
        thinks=_thinks(payload),
        shows_reasoning=payload.get("include_reasoning") is not False,
    )
    read_sampling(asked, payload)
    _read_chat_extras(asked, payload)
    return asked


def _read_chat_extras(asked: Asked, payload: Mapping[str, Any]) -> None:
    top = payload.get("top_logprobs", 0)
    if top and payload.get("logprobs") is not True:
        raise Refusal("when using `top_logprobs`, `logprobs` must be set to true.", param="top_logprobs")
    # An explicit null is "no logprobs" to vLLM, whatever `logprobs` says.
    asked.wants_logprobs = payload.get("logprobs") is True and top is not None and asked.shows_reasoning
    asked.top_logprobs = _at_most(integer(payload, "top_logprobs", 0) or 0, MOST_LOGPROBS, "top_logprobs")
    asked.wants_ids = payload.get("return_token_ids") is True and asked.shows_reasoning


def parse_completion(payload: Mapping[str, Any]) -> Asked:
    """The request of `/v1/completions`, for one prompt. Raises Refusal."""
    prompt = payload.get("prompt")
    is_ids = isinstance(prompt, list) and bool(prompt) and all(isinstance(token, int) for token in prompt)
    if not is_ids and not isinstance(prompt, str):
        raise Refusal("`prompt` must be one string or one list of token ids.", param="prompt")
    asked = Asked(
        prompt=prompt if isinstance(prompt, str) else None,
        prompt_ids=prompt if isinstance(prompt, list) else None,
        max_tokens=positive(payload, "max_tokens", COMPLETION_MAX_TOKENS),
        schema=_schema(payload),
        allowed_texts=_allowed_texts(payload),
        echoes=payload.get("echo") is True,
        wants_ids=payload.get("return_token_ids") is True,
    )
    read_sampling(asked, payload)
    logprobs = integer(payload, "logprobs")
    asked.wants_logprobs = logprobs is not None
    asked.top_logprobs = _at_most(logprobs or 0, MOST_LOGPROBS, "logprobs")
    return asked


def read_sampling(asked: Asked, payload: Mapping[str, Any]) -> None:
    """Fills in the fields that all routes share."""
    asked.payload = payload
    asked.choices = _at_most(positive(payload, "n") or 1, MOST_CHOICES, "n")
    asked.min_tokens = integer(payload, "min_tokens", 0) or 0
    asked.ignores_end = payload.get("ignore_eos") is True
    asked.stop = _stop(payload.get("stop"))
    asked.keeps_stop = payload.get("include_stop_str_in_output") is True
    asked.seed = integer(payload, "seed")
    temperature = payload.get("temperature")
    asked.is_greedy = temperature == 0
    if isinstance(temperature, int | float) and temperature > 0:
        asked.temperature = float(temperature)
    asked.names_tokens_by_id = payload.get("return_tokens_as_token_ids") is True
    asked.streams = payload.get("stream") is True
    stream_options = payload.get("stream_options")
    if stream_options is not None:
        if not asked.streams:
            raise Refusal("Stream options can only be defined when `stream=True`.", param="stream_options")
        asked.streams_usage = isinstance(stream_options, dict) and stream_options.get("include_usage") is True


def checked_messages(messages: object, param: str) -> Sequence[Message]:
    """The chat messages, each of which an engine can render. Raises Refusal."""
    if not isinstance(messages, list) or not messages:
        raise Refusal(f"`{param}` must be a list of at least one message.", param=param)
    for message in messages:
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Refusal(f"Each of `{param}` must be an object with a `role`.", param=param)
        if message.get("tool_calls"):
            _check_calls(message["tool_calls"])
    return messages


def _check_calls(calls: object) -> None:
    """vLLM parses the arguments of every earlier call again, and refuses the turn that has a broken one."""
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
    """The declared tools. Raises Refusal."""
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
    """What the request's `tool_choice` demands, and the name it demands. Raises Refusal."""
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
    if not isinstance(name, str) or name not in map(name_of, tools):
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


def _at_most(value: int, most: int, name: str) -> int:
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


def _allowed_texts(payload: Mapping[str, Any]) -> Sequence[str]:
    structured = payload.get("structured_outputs")
    allowed = structured.get("choice") if isinstance(structured, dict) else None
    return allowed if isinstance(allowed, list) else ()
