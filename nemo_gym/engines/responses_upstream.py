"""Responses requests for upstreams that support the Responses API, and checks of their answers.

An upstream can refuse items of its own earlier answers: OpenAI refuses a `status` on a reasoning item, null values,
unknown fields, and ids of items that it does not store. This module removes such fields. None of them is visible to a
model, or a note reports the removal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import orjson

from nemo_gym.failures import EngineError
from nemo_gym.responses import VLLM, Converted
from nemo_gym.responses.finish import check_finished
from nemo_gym.responses.history_items import convert_message_to_items, is_chat_shaped
from nemo_gym.responses.metadata_extras import EXTRAS_KEYS, put_metadata
from nemo_gym.responses.problems import ConversionProblems
from nemo_gym.responses.tools import check_choice_without_tools
from nemo_gym.tokens.records import CARRIED_FIELDS, drop_tokens

__all__ = ["build_responses_request", "check_finished_response", "drop_our_fields", "string_metadata"]

_TARGET = "this upstream's Responses API"
_TOOL_FIELDS = ("tools", "tool_choice", "parallel_tool_calls")
_MERGING = replace(VLLM, max_tokens_field="max_output_tokens")
_TEXT_ITEMS = frozenset({"message", "function_call", "function_call_output", "reasoning"})
"""Items with complete content; their id only lets the upstream look them up."""


def build_responses_request(
    params: Mapping[str, Any], *, drop_reasoning: bool = False, merge_extras: bool = False
) -> Converted:
    """Return a copy of `params` without fields that an upstream refuses.

    `drop_reasoning` removes the reasoning of earlier turns. `merge_extras` moves the engine extras in `metadata` to
    fields of the request; otherwise they are removed. Raises `InputError` for unsupported requests.
    """
    problems = ConversionProblems()
    body = {name: value for name, value in params.items() if value is not None}
    if body.get("background"):
        problems.add("background", "is not supported")
    if not body.get("tools"):
        check_choice_without_tools(body.get("tool_choice"), problems)
        for name in _TOOL_FIELDS:
            body.pop(name, None)
    if isinstance(body.get("input"), list):
        is_stored = body.get("store") is not False
        body["input"] = _clean_items(body["input"], drop_reasoning, is_stored, problems)
    _put_metadata(body, merge_extras, problems)
    problems.raise_if_any(_TARGET)
    return Converted(body, tuple(problems.notes))


def string_metadata(metadata: Mapping[str, Any], problems: ConversionProblems) -> dict[str, str]:
    """Convert metadata for OpenAI: strings only, without extras for other engines."""
    for key in EXTRAS_KEYS:
        if metadata.get(key):
            reason = "removed: the upstream has no field for it"
            problems.note("dropped_engine_extras", f"metadata.{key}", reason)
    return {
        key: value if isinstance(value, str) else orjson.dumps(value).decode()
        for key, value in metadata.items()
        if key not in EXTRAS_KEYS and value is not None
    }


def drop_our_fields(items: list[Any]) -> list[Any]:
    """Remove the fields that a model server adds; returns the same list if there are none."""
    objects = items if set(map(type, items)) == {dict} else [item for item in items if isinstance(item, dict)]
    if CARRIED_FIELDS.isdisjoint(chain.from_iterable(objects)):
        return items
    return [drop_tokens(item) if isinstance(item, dict) else item for item in items]


def check_finished_response(answer: dict[str, Any]) -> dict[str, Any]:
    """Return `answer` if it is a finished Responses object; otherwise raise `EngineError`."""
    check_finished(answer)
    if not isinstance(answer.get("output"), list):
        raise EngineError("The engine's answer has no list of output items.", code="malformed_answer")
    return answer


# --- Items ------------------------------------------------------------------------------------------------------


def _clean_items(
    items: list[Any], drop_reasoning: bool, is_stored: bool, problems: ConversionProblems
) -> list[Any]:
    # An id is valid only for a stored item, and a stored call requires its reasoning, which may be removed here.
    keeps_ids = is_stored and not drop_reasoning
    cleaned = []
    for field, item in _convert_items(items, problems):
        if item.get("type") == "reasoning" and (drop_reasoning or not _is_readable(item, is_stored)):
            reason = "by configuration" if drop_reasoning else "the upstream cannot read it"
            problems.note("dropped_reasoning", field, f"removed: {reason}")
        else:
            cleaned.append(_clean_item(item, keeps_ids))
    return cleaned


def _convert_items(items: list[Any], problems: ConversionProblems) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield every item with its path in the request; chat messages are converted to items."""
    for index, item in enumerate(items):
        field = f"input[{index}]"
        if not isinstance(item, Mapping):
            problems.add(field, "must be an object")
        elif is_chat_shaped(item):
            yield from ((field, part) for part in convert_message_to_items(item, field, problems, VLLM))
        else:
            yield field, item


def _is_readable(item: Mapping[str, Any], is_stored: bool) -> bool:
    """Return whether the upstream can read the reasoning: in the item, or by its id."""
    return bool(item.get("content") or item.get("encrypted_content") or (is_stored and item.get("id")))


def _clean_item(item: Mapping[str, Any], keeps_id: bool) -> dict[str, Any]:
    kind = item.get("type", "message")
    cleaned = {key: value for key, value in item.items() if value is not None and key not in CARRIED_FIELDS}
    if kind == "reasoning":
        cleaned.pop("status", None)
        cleaned.setdefault("summary", [])
    if not keeps_id and kind in _TEXT_ITEMS:
        cleaned.pop("id", None)
    if kind == "function_call_output":
        cleaned.pop("name", None)  # a field of chat messages only
    content = cleaned.get("content")
    if kind == "message" and isinstance(content, list):
        cleaned["content"] = [_clean_part(part) for part in content]
    return cleaned


def _clean_part(part: Any) -> Any:
    """Remove null values and logprobs from a content part."""
    if not isinstance(part, Mapping) or ("logprobs" not in part and None not in part.values()):
        return part
    return {key: value for key, value in part.items() if value is not None and key != "logprobs"}


def _put_metadata(body: dict[str, Any], merge_extras: bool, problems: ConversionProblems) -> None:
    metadata = body.pop("metadata", None)
    if merge_extras:
        put_metadata(metadata, body, _MERGING, problems)
        metadata = body.pop("metadata", None)
    elif metadata is not None and not isinstance(metadata, Mapping):
        problems.add("metadata", "must be an object")
        return
    strings = string_metadata(metadata or {}, problems)
    if strings:
        body["metadata"] = strings
