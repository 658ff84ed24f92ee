"""Converts a Responses request to a Chat Completions request.

Fields that chat cannot express raise one `InputError` that names them. Converting back (`convert_chat_request`)
gives the same request except for these equivalent spellings:

1. a string `input` is one user message, `instructions` are a system message at its head;
2. items have no `id` and `status`, and messages have `type: "message"`; an item without `type` is what it looks like;
3. the text parts of one assistant message are one string, without annotations and logprobs;
4. reasoning items that follow one another are one, its text is in one summary part; an empty one is none;
5. fields that are null or have no effect are absent; `tool_choice` and `parallel_tool_calls` are absent without
   tools; `strict` of a tool and `store` are written out (their defaults differ between the APIs);
6. `max_tokens` and `max_completion_tokens` are `max_output_tokens`; the JSON strings in `metadata` are fields.

An empty list of messages is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from nemo_gym.responses._chat_messages import Transcript
from nemo_gym.responses._content_parts import present
from nemo_gym.responses._request_fields import (
    CARRIED_FIELDS,
    CHAT_ONLY,
    INCLUDE_LOGPROBS,
    KNOWN_INCLUDES,
    RESPONSES_LIMITS,
    RESPONSES_ONLY,
    STREAM_FIELDS,
    carry_fields,
    put_limit,
)
from nemo_gym.responses.dialects import VLLM, Dialect
from nemo_gym.responses.known_beginning import KnownBeginning
from nemo_gym.responses.metadata_extras import put_metadata
from nemo_gym.responses.problems import ConversionProblems, Converted
from nemo_gym.responses.tools import convert_tool_choice_to_chat, convert_tools_to_chat, put_tools

TARGET = "Chat Completions"

_Json: TypeAlias = dict[str, Any]
_Section: TypeAlias = Callable[[Mapping[str, Any], _Json, ConversionProblems], None]

_REFUSED = {**RESPONSES_ONLY, "n": CHAT_ONLY["n"]}


def build_chat_request(
    params: Mapping[str, Any], dialect: Dialect = VLLM, known: KnownBeginning | None = None
) -> Converted:
    """Return the chat request body for a Responses create-params body, without `stream`.

    `known`: that of an earlier request of the session, which is brought up to date. Raises `InputError` that names
    every field that chat cannot express.
    """
    problems = ConversionProblems()
    body: _Json = {"messages": _build_messages(params, dialect, problems, known)}
    carry_fields(params, body, _SECTIONED, _REFUSED, problems)
    for section in _SECTIONS:
        section(params, body, problems)
    put_limit(params, RESPONSES_LIMITS, body, dialect.max_tokens_field, problems)
    put_metadata(params.get("metadata"), body, dialect, problems)
    problems.raise_if_any(TARGET)
    return Converted(body, tuple(problems.notes))


def _build_messages(
    params: Mapping[str, Any],
    dialect: Dialect,
    problems: ConversionProblems,
    known: KnownBeginning | None,
) -> list[_Json]:
    transcript = Transcript(dialect, problems)
    instructions, given = params.get("instructions"), params.get("input")
    if isinstance(instructions, str):
        if instructions:
            transcript.messages.append({"role": "system", "content": instructions})
    elif instructions is not None:
        problems.add("instructions", "must be a string")
    if isinstance(given, str):
        transcript.messages.append({"role": "user", "content": given})
    elif isinstance(given, list):
        _add_items(transcript, given, instructions, known)
    else:
        problems.add("input", "must be a string or a list of items")
        return []
    messages = transcript.finish()
    if not messages and not problems:
        problems.add("input", "is empty, so there is nothing to answer")
    return messages


def _add_items(
    transcript: Transcript, items: list[Any], instructions: object, known: KnownBeginning | None
) -> None:
    if known is None:
        for index, item in enumerate(items):
            transcript.add(item, f"input[{index}]")
        return
    dialect, problems = transcript.dialect, transcript.problems
    start = known.count_known(items, instructions, dialect)
    if start:
        transcript.messages = [*known.messages]
    closed, messages = start, len(transcript.messages)
    for index in range(start, len(items)):
        transcript.add(items[index], f"input[{index}]")
        if transcript.is_closed:
            closed, messages = index + 1, len(transcript.messages)
    if not problems and not problems.notes:  # a note is of every request
        known.keep(items[:closed], transcript.messages[:messages], instructions, dialect)


# --- Sections of the request ------------------------------------------------------------------------------------


def _put_logprobs(params: Mapping[str, Any], body: _Json, problems: ConversionProblems) -> None:
    if wants_logprobs(params):
        body["logprobs"] = True
        # With null, engines return no logprobs or HTTP 500, depending on their version.
        body["top_logprobs"] = params.get("top_logprobs") or 0
    include = params.get("include") or []
    for value in include if isinstance(include, list) else [include]:
        if value not in KNOWN_INCLUDES:
            problems.add("include", f"{value!r} can't be included")


def wants_logprobs(params: Mapping[str, Any]) -> bool:
    """Return whether a Responses request asks for the logprobs of the answer's text."""
    include = params.get("include")
    is_included = isinstance(include, list) and INCLUDE_LOGPROBS in include
    return bool(is_included or params.get("logprobs") or params.get("top_logprobs"))


def _put_reasoning(params: Mapping[str, Any], body: _Json, problems: ConversionProblems) -> None:
    reasoning = problems.read_object(params.get("reasoning"), "reasoning")
    # `summary` is not needed, because the engine returns the full reasoning.
    problems.add_unknown(reasoning, {"effort", "summary", "generate_summary"}, "reasoning.")
    if reasoning.get("effort") is not None:
        body["reasoning_effort"] = reasoning["effort"]


def _put_text(params: Mapping[str, Any], body: _Json, problems: ConversionProblems) -> None:
    text = problems.read_object(params.get("text"), "text")
    problems.add_unknown(text, {"format", "verbosity"}, "text.")
    body.update(present(text, "verbosity"))
    if text.get("format") is not None:
        body["response_format"] = _convert_text_format(text["format"], problems)


def _convert_text_format(text_format: object, problems: ConversionProblems) -> _Json:
    if not isinstance(text_format, dict):
        problems.add("text.format", "must be an object")
        return {}
    kind = text_format.get("type")
    if kind == "json_schema":
        known = {"type", "name", "schema", "strict", "description"}
        problems.add_unknown(text_format, known, "text.format.")
        for key in ("name", "schema"):
            if text_format.get(key) is None:
                problems.add(f"text.format.{key}", "is missing")
        schema = {key: value for key, value in text_format.items() if key != "type" and value is not None}
        return {"type": "json_schema", "json_schema": schema}
    if kind not in ("text", "json_object"):
        problems.add("text.format.type", f"{kind!r} is no format of Chat Completions")
    problems.add_unknown(text_format, {"type"}, "text.format.")
    return {"type": kind}


_SECTIONS: tuple[_Section, ...] = (
    partial(put_tools, tools_of=convert_tools_to_chat, choice_of=convert_tool_choice_to_chat),
    _put_logprobs,
    _put_reasoning,
    _put_text,
)
_SECTIONED = frozenset(
    {
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "logprobs",
        "top_logprobs",
        "include",
        "reasoning",
        "text",
        "metadata",
        *RESPONSES_LIMITS,
    }
)
"""Fields that one of the sections converts."""

RESPONSES_FIELDS = _SECTIONED | CARRIED_FIELDS | STREAM_FIELDS | _REFUSED.keys()
"""All fields of a Responses request that the conversion knows, to convert or to refuse them."""
