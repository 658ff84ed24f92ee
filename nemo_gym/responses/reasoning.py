"""Reasoning inside the text of an answer: `<think>…</think>` blocks at its very start.

Only leading blocks are reasoning. A later tag is part of the answer, because answers quote tags. Invariant: the
blocks and the answer together hold every character of the content except the tags.
White space before a block or between blocks moves to the start of the block that follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nemo_gym.responses.dialects import VLLM, Dialect, InlineThinking, ReasoningHistory

BETWEEN_REASONING_PARTS = "\n\n"


class Thinking(NamedTuple):
    """Content split into reasoning and answer."""

    blocks: tuple[str, ...]
    """The texts between the tags, without empty ones."""
    answer: str
    """The text after the last leading block."""
    is_closed: bool
    """False if the generation ended inside a block; then the answer is empty."""


def split_thinking(content: str, dialect: Dialect = VLLM) -> Thinking:
    """Split the leading reasoning blocks from `content`."""
    mode = dialect.inline_thinking
    is_inside = mode is InlineThinking.OPENED and not content.lstrip().startswith(dialect.think_open)
    if mode is InlineThinking.LITERAL or not (is_inside or dialect.think_open in content):
        return Thinking((), content, True)
    blocks: list[str] = []
    rest = content
    while True:
        space = ""
        if not is_inside:
            stripped = rest.lstrip()
            if not stripped.startswith(dialect.think_open):
                return Thinking(tuple(blocks), rest, True)
            space = rest[: len(rest) - len(stripped)]
            rest = stripped[len(dialect.think_open) :]
        is_inside = False
        text, close, rest = rest.partition(dialect.think_close)
        if text:
            blocks.append(space + text)
        if not close:
            return Thinking(tuple(blocks), "", False)


def inline_thinking(blocks: Sequence[str], dialect: Dialect = VLLM) -> str:
    """Return `blocks` as tagged text, for the start of a message."""
    return "".join(f"{dialect.think_open}{block}{dialect.think_close}" for block in blocks if block)


def put_reasoning(message: dict[str, Any], blocks: Sequence[str], dialect: Dialect) -> None:
    """Add reasoning to a chat message, in its own fields or as tagged text before the content."""
    if dialect.reasoning_history is ReasoningHistory.FIELDS:
        message.update(dict.fromkeys(dialect.reasoning_fields, BETWEEN_REASONING_PARTS.join(blocks)))
        return
    content, thinking = message.get("content"), inline_thinking(blocks, dialect)
    if isinstance(content, list):
        message["content"] = [{"type": "text", "text": thinking}, *content]
    else:
        message["content"] = thinking + (content or "")
