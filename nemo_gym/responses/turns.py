"""Digests of the turns of a conversation, in the three APIs, from which the tree of a rollout's calls is derived.

Two spellings of a turn have one digest: arguments of tool calls are compared as JSON, text without white space at its
ends, and reasoning is left out, because agents write these anew. Instructions and tools are no turns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from nemo_gym.responses.arguments import canonical_arguments

ITEMS_OF_API: Mapping[str, str] = {"responses": "input", "chat": "messages", "messages": "messages"}
"""The field with the conversation of a request, by API."""

_DIGEST_BYTES = 12
_SYSTEM = ("system", "developer")
_ENDS_THINKING = "</think>"
_REASONING = frozenset({"reasoning", "thinking", "redacted_thinking"})
_TEXT = frozenset({"text", "input_text", "output_text"})


class Turn(NamedTuple):
    """A part of a conversation: a text, a tool call, or the output of a tool."""

    is_answer: bool
    """True if a model wrote it."""
    digest: bytes
    text: str | None = None
    """The text of an answer; None for other turns."""


class SpokenTurn(NamedTuple):
    """A turn with its whole text, in the spelling in which turns are compared."""

    kind: str
    """`call`, `output`, `item`, or the role of a message."""
    text: str

    @property
    def is_answer(self) -> bool:
        """True if a model wrote it."""
        return self.kind in ("assistant", "call")


def read_request_items(api: str, body: Mapping[str, Any]) -> list[Any]:
    """Return the items or messages of a request; a text is one message."""
    items = body.get(ITEMS_OF_API[api])
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    return items if isinstance(items, list) else []


def read_item_turns(item: Any) -> tuple[Turn, ...]:
    """Return the turns in an item or message of any API."""
    return tuple(map(_digest_turn, read_spoken_turns(item)))


def read_spoken_turns(item: Any) -> Iterator[SpokenTurn]:
    """Yield the turns in an item or message of any API with their texts."""
    return _turns(item) if isinstance(item, Mapping) else iter(())


def read_answer_turns(answer: Mapping[str, Any]) -> tuple[Turn, ...]:
    """Return the turns of an answer of any API."""
    return tuple(turn for item in list_answer_items(answer) for turn in read_item_turns(item))


def list_answer_items(answer: Mapping[str, Any]) -> list[Any]:
    """Return the items or messages of an answer of any API."""
    choices = answer.get("choices")
    if isinstance(choices, list):
        return [{"role": "assistant", **choices[0]["message"]}] if choices else []
    if isinstance(answer.get("output"), list):
        return list(answer["output"])
    return [{"role": "assistant", "content": answer.get("content")}]


def join_item_texts(items: list[Any]) -> str:
    """Return all texts in items or messages, outputs of tools included."""
    return "\n".join(text for item in items if isinstance(item, Mapping) for text in _texts(item))


def _turns(item: Mapping[str, Any]) -> Iterator[SpokenTurn]:
    kind = item.get("type")
    if kind in ("function_call", "custom_tool_call"):
        yield _call(item.get("name"), item.get("arguments", item.get("input")))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield SpokenTurn("output", _text(item.get("output")))
    elif "role" in item:
        yield from _read_message_turns(str(item["role"]), item)
    elif kind not in _REASONING:
        yield SpokenTurn("item", _dump_sorted(item))


def _read_message_turns(role: str, message: Mapping[str, Any]) -> Iterator[SpokenTurn]:
    content = message.get("content")
    if role in _SYSTEM:
        return
    if role == "tool":
        yield SpokenTurn("output", _text(content))
        return
    blocks = content if isinstance(content, list) else [content]
    text = ""
    for block in blocks:
        kind = block.get("type") if isinstance(block, Mapping) else None
        if block is None or kind in _REASONING:
            continue
        if kind == "tool_use":
            yield from _said(role, text)
            text = ""
            yield _call(block.get("name"), _dump_sorted(block.get("input")))
        elif kind == "tool_result":
            yield from _said(role, text)
            text = ""
            yield SpokenTurn("output", _text(block.get("content")))
        else:
            text += _text(block)
    yield from _said(role, text)
    for call in message.get("tool_calls") or ():
        function = call.get("function") or call.get("custom") or {}
        yield _call(function.get("name"), function.get("arguments", function.get("input")))


def _said(role: str, text: str) -> Iterator[SpokenTurn]:
    if role == "assistant":
        text = text.rpartition(_ENDS_THINKING)[2]
    text = text.strip()
    if text:
        yield SpokenTurn(role, text)


def _call(name: object, arguments: object) -> SpokenTurn:
    written = arguments if isinstance(arguments, str) else _dump_sorted(arguments)
    return SpokenTurn("call", f"{name} {canonical_arguments(written)}")


def _digest_turn(turn: SpokenTurn) -> Turn:
    kind, text = turn
    return Turn(turn.is_answer, _digest(kind, text), text if kind == "assistant" else None)


def _digest(kind: str, text: str) -> bytes:
    written = f"{kind}\0{text}".encode(errors="surrogatepass")
    return hashlib.blake2b(written, digest_size=_DIGEST_BYTES).digest()


def _text(content: Any) -> str:
    """Return the text of a part, or of a list of parts. Parts without text are their JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_text, content))
    if isinstance(content, Mapping):
        is_text = content.get("type") in _TEXT and isinstance(content.get("text"), str)
        return str(content["text"]) if is_text else _dump_sorted(content)
    return "" if content is None else str(content)


def _dump_sorted(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _texts(item: Mapping[str, Any]) -> Iterator[str]:
    for content in (item.get("content"), item.get("output")):
        if isinstance(content, list):
            for part in content:
                inner = part.get("content") if isinstance(part, Mapping) else None
                yield _text(inner if inner is not None else part)
        elif content is not None:
            yield _text(content)
