"""Converts Anthropic's Messages request to a Responses request.

A field that the Responses API cannot express raises an `InputError` that names it. Hints without effect on the answer
(`cache_control`, `metadata`, `service_tier`) are dropped. Three features are represented differently:

1. the output of a failed tool (`is_error`) is prefixed with `Error: `;
2. arguments that are not a JSON object are the tool input `{"_raw": "<the text>"}`, and are converted back;
3. a provider's encrypted reasoning is the signature of the thinking block.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from nemo_gym.json_objects import object_in
from nemo_gym.responses._content_parts import present, require_text
from nemo_gym.responses.problems import UNKNOWN_FIELD, ConversionProblems

_Json: TypeAlias = dict[str, Any]

TARGET = "the Responses API"
RAW_ARGUMENTS = "_raw"
BETWEEN_TEXTS = "\n\n"

_HINTS = frozenset({"cache_control", "metadata", "service_tier", "stream"})
_CARRIED: Mapping[str, str] = {
    "model": "model",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": "max_output_tokens",
    "stop_sequences": "stop",
    # Extras of engines, as in the other two APIs.
    **{
        name: name
        for name in ("frequency_penalty", "min_p", "presence_penalty", "repetition_penalty", "seed")
    },
}
TOOL_FIELDS = frozenset(
    {"type", "name", "description", "input_schema", "strict", "cache_control", "eager_input_streaming"}
)
_CHOICES: Mapping[object, str] = {"auto": "auto", "any": "required", "none": "none"}
_EFFORTS: tuple[tuple[int, str], ...] = ((4_096, "low"), (16_384, "medium"))
"""Upper limits of thinking budgets in tokens, and their effort; larger budgets are `high`."""


# --- Request ----------------------------------------------------------------------------------------------------


def convert_message_request(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Responses create-params body for a Messages body. Raises `InputError` that names every problem."""
    problems = ConversionProblems()
    params: _Json = {"input": _convert_input(body.get("messages"), problems), "store": False}
    for name, value in body.items():
        if value is None or name in _HINTS or name == "messages":
            continue
        if name in _CARRIED:
            params[_CARRIED[name]] = value
        elif name in _SECTIONS:
            _SECTIONS[name](value, params, problems)
        else:
            problems.add(name, UNKNOWN_FIELD)
    problems.raise_if_any(TARGET)
    return params


def _put_system(system: object, params: _Json, problems: ConversionProblems) -> None:
    if isinstance(system, str):
        params["instructions"] = system
        return
    blocks = system if isinstance(system, list) else [system]
    texts = []
    for index, block in enumerate(blocks):
        if isinstance(block, Mapping) and block.get("type") == "text":
            texts.append(require_text(block, "text", f"system[{index}]", problems))
        else:
            problems.add(f"system[{index}]", "must be a block of text")
    params["instructions"] = BETWEEN_TEXTS.join(texts)


def _put_tools(tools: object, params: _Json, problems: ConversionProblems) -> None:
    params["tools"] = []
    for field, tool in problems.tools_in(tools):
        if not isinstance(tool, Mapping) or tool.get("type", "custom") != "custom":
            problems.add(f"{field}.type", "tools of the provider can't be put to another model")
            continue
        problems.add_unknown(tool, TOOL_FIELDS, f"{field}.")
        function = {"name": require_text(tool, "name", field, problems), **present(tool, "description")}
        schema = {"parameters": tool.get("input_schema"), "strict": bool(tool.get("strict"))}
        params["tools"].append({"type": "function", **function, **schema})


def _put_tool_choice(choice: object, params: _Json, problems: ConversionProblems) -> None:
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    if not isinstance(choice, Mapping) or (kind not in _CHOICES and kind != "tool"):
        problems.add("tool_choice.type", f"{kind!r} is no choice among tools")
        return
    if kind == "tool":
        name = require_text(choice, "name", "tool_choice", problems)
        params["tool_choice"] = {"type": "function", "name": name}
    else:
        params["tool_choice"] = _CHOICES[kind]
    if choice.get("disable_parallel_tool_use"):
        params["parallel_tool_calls"] = False


def _put_thinking(thinking: object, params: _Json, problems: ConversionProblems) -> None:
    kind = thinking.get("type") if isinstance(thinking, Mapping) else None
    if kind == "disabled":
        params.setdefault("reasoning", {"effort": "none"})
    elif isinstance(thinking, Mapping) and kind == "enabled":
        budget = thinking.get("budget_tokens") or 0
        effort = next((name for below, name in _EFFORTS if budget < below), "high")
        params.setdefault("reasoning", {"effort": effort})
    elif kind != "adaptive":
        problems.add("thinking.type", f"{kind!r} is no way of thinking")


def _put_output_config(config: object, params: _Json, problems: ConversionProblems) -> None:
    config = problems.read_object(config, "output_config")
    problems.add_unknown(config, {"effort", "format"}, "output_config.")
    if config.get("effort") is not None:
        params["reasoning"] = {"effort": config["effort"]}
    if config.get("format") is not None:
        _put_output_format(config["format"], params, problems)


def _put_output_format(output_format: object, params: _Json, problems: ConversionProblems) -> None:
    if not isinstance(output_format, Mapping) or output_format.get("type") != "json_schema":
        problems.add("output_format.type", "only `json_schema` is a format")
        return
    schema = output_format.get("schema")
    params["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": True}}


def _check_context_management(management: object, params: _Json, problems: ConversionProblems) -> None:
    edits = management.get("edits") if isinstance(management, Mapping) else None
    if any(not isinstance(edit, Mapping) or edit.get("keep") != "all" for edit in edits or ()):
        problems.add("context_management.edits", "conversations are never shortened automatically")


_SECTIONS: Mapping[str, Callable[[object, _Json, ConversionProblems], None]] = {
    "system": _put_system,
    "tools": _put_tools,
    "tool_choice": _put_tool_choice,
    "thinking": _put_thinking,
    "output_config": _put_output_config,
    "output_format": _put_output_format,
    "context_management": _check_context_management,
}


MESSAGES_FIELDS = _HINTS | _CARRIED.keys() | _SECTIONS.keys() | {"messages"}
"""All fields of a Messages request that the conversion knows."""


# --- Messages of a request --------------------------------------------------------------------------------------


def _convert_input(messages: object, problems: ConversionProblems) -> list[_Json]:
    items: list[_Json] = []
    field = role = None
    for field, message in problems.messages_in(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in ("user", "assistant", "system"):
            problems.add(f"{field}.role", f"{role!r} is no role of a message")
            continue
        items += _convert_message(role, message.get("content"), f"{field}.content", problems)
    if field is not None and role == "assistant":
        problems.add(field, "an answer that is begun can't be continued")
    return items


def _convert_message(role: str, content: object, field: str, problems: ConversionProblems) -> list[_Json]:
    """Return the items of one message in order; adjacent text and image blocks form one item."""
    if isinstance(content, str):
        return [{"type": "message", "role": role, "content": content}]
    if not isinstance(content, list):
        problems.add(field, "must be a string or a list of blocks")
        return []
    items: list[_Json] = []
    parts: list[_Json] | None = None
    for index, block in enumerate(content):
        where = f"{field}[{index}]"
        item = _convert_block(role, block, where, problems)
        if item is not None:
            items.append(item)
            parts = None
            continue
        if parts is None:
            parts = []
            items.append({"type": "message", "role": role, "content": parts})
        parts.append(_convert_part(role, block, where, problems))
    return items


def _convert_block(role: str, block: object, field: str, problems: ConversionProblems) -> _Json | None:
    """Return the item for a block, or None for a block that is part of a message."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(block, Mapping):
        return None
    if role == "user" and kind == "tool_result":
        return _tool_output(block, field, problems)
    if role == "assistant" and kind == "tool_use":
        return {
            "type": "function_call",
            "call_id": require_text(block, "id", field, problems),
            "name": require_text(block, "name", field, problems),
            "arguments": dump_arguments(block.get("input")),
        }
    if role == "assistant" and kind == "thinking":
        text = require_text(block, "thinking", field, problems)
        item: _Json = {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}
        return item | ({"encrypted_content": block["signature"]} if block.get("signature") else {})
    if role == "assistant" and kind == "redacted_thinking":
        return {"type": "reasoning", "summary": [], "encrypted_content": block.get("data")}
    return None


def _tool_output(block: Mapping[str, Any], field: str, problems: ConversionProblems) -> _Json:
    content = block.get("content")
    output: str | list[_Json]
    if content is None or isinstance(content, str):
        output = content or ""
    elif isinstance(content, list):
        output = [
            _convert_part("user", part, f"{field}.content[{at}]", problems) for at, part in enumerate(content)
        ]
        if all(part.get("type") == "input_text" for part in output):
            output = "".join(part["text"] for part in output)
    else:
        problems.add(f"{field}.content", "must be a string or a list of blocks")
        output = ""
    if block.get("is_error"):
        output = f"Error: {output}" if isinstance(output, str) else [_text("Error: "), *output]
    call_id = require_text(block, "tool_use_id", field, problems)
    return {"type": "function_call_output", "call_id": call_id, "output": output}


def _convert_part(role: str, block: object, field: str, problems: ConversionProblems) -> _Json:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if isinstance(block, Mapping) and kind == "text":
        text = require_text(block, "text", field, problems)
        return {"type": "output_text", "text": text} if role == "assistant" else _text(text)
    if isinstance(block, Mapping) and kind in ("image", "document") and role == "user":
        source = block.get("source")
        if isinstance(source, Mapping):
            convert = _convert_image if kind == "image" else _convert_document
            part = convert(block, source)
            if part is not None:
                return part
            problems.add(f"{field}.source.type", f"{source.get('type')!r} is no source that can be passed on")
        else:
            problems.add(f"{field}.source", "must be an object")
        return {}
    problems.add(f"{field}.type", f"{kind!r} is no block of a message of the {role}")
    return {}


def _text(text: str) -> _Json:
    return {"type": "input_text", "text": text}


def _convert_image(block: Mapping[str, Any], source: Mapping[str, Any]) -> _Json | None:
    if source.get("type") == "base64":
        return {"type": "input_image", "image_url": _data_url(source), "detail": "auto"}
    if source.get("type") == "url":
        return {"type": "input_image", "image_url": source.get("url"), "detail": "auto"}
    return None


def _convert_document(block: Mapping[str, Any], source: Mapping[str, Any]) -> _Json | None:
    if source.get("type") == "text":
        return _text(str(source.get("data")))
    if source.get("type") == "base64":
        name = block.get("title") or "document.pdf"
        return {"type": "input_file", "filename": name, "file_data": _data_url(source)}
    if source.get("type") == "url":
        return {"type": "input_file", "file_url": source.get("url")}
    return None


def _data_url(source: Mapping[str, Any]) -> str:
    return f"data:{source.get('media_type')};base64,{source.get('data')}"


# --- Arguments of tools ------------------------------------------------------------------------------------------


def parse_tool_input(arguments: str) -> dict[str, Any]:
    """Return the tool input for the arguments that the model wrote."""
    parsed = object_in(arguments)
    return (
        parsed if parsed is not None else {RAW_ARGUMENTS: arguments}
    )  # the tool reports the error to the model


def dump_arguments(given: object) -> str:
    """Return the arguments text for a tool input, with spaces after separators as in models' training data."""
    if (
        isinstance(given, Mapping)
        and given.keys() == {RAW_ARGUMENTS}
        and isinstance(given[RAW_ARGUMENTS], str)
    ):
        return str(given[RAW_ARGUMENTS])
    return json.dumps(given if given is not None else {}, ensure_ascii=False)
