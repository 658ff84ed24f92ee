"""Differences between the chat APIs of engines, as data.

The conversion depends only on a `Dialect` and not on engine names. Engines change with every release, so a model
server starts with a preset and overrides fields from its configuration (`dataclasses.replace`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["REASONING_FIELDS"]

TRAINING_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts")
"""The fields that trainers read, on the last item (or the message) of a model call."""

REASONING_FIELDS = ("reasoning", "reasoning_content")
"""The message fields for reasoning, in newer and older engines."""


class ReasoningHistory(StrEnum):
    """The form in which the reasoning of earlier turns is sent to the engine."""

    FIELDS = "fields"
    """As `reasoning` and `reasoning_content` of the assistant message: engines read one or the other."""
    INLINE = "inline"
    """As `<think>…</think>` at the head of the message's text."""


class InlineThinking(StrEnum):
    """The place of reasoning in the text of an answer, if no reasoning field holds any."""

    LEADING = "leading"
    """`<think>…</think>` blocks at the very start of the text."""
    OPENED = "opened"
    """The chat template already wrote `<think>`: everything up to the first `</think>` is reasoning."""
    LITERAL = "literal"
    """None: the engine parses reasoning itself, so tags in the text are plain text."""


class BadArguments(StrEnum):
    """The treatment of a tool call in the history whose `arguments` are not the JSON text of an object."""

    WRAP = "wrap"
    """`{"_raw": "<the text>"}`: the model still sees what it wrote."""
    EMPTY = "empty"
    """`{}`."""
    KEEP = "keep"
    """Sent as they are: the engine does not parse them."""
    REFUSE = "refuse"
    """The request is refused: the episode ends here."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's variant of Chat Completions."""

    max_tokens_field: str = "max_completion_tokens"
    """The field of a chat request that bounds the answer: `max_completion_tokens` or `max_tokens`."""
    replace_developer_role_with_system: bool = False
    """For chat templates without a `developer` role."""
    reasoning_history: ReasoningHistory = ReasoningHistory.FIELDS
    reasoning_fields: tuple[str, ...] = REASONING_FIELDS
    """The field names that `ReasoningHistory.FIELDS` writes; an engine reads one of them."""
    drop_input_reasoning_items: bool = False
    """Leave the reasoning of earlier turns out of the request, with one note for each item."""
    inline_thinking: InlineThinking = InlineThinking.LEADING
    think_open: str = "<think>"
    think_close: str = "</think>"
    bad_arguments: BadArguments = BadArguments.WRAP
    empty_content: str | None = None
    """The `content` of an assistant message that only calls tools: None, or "" for templates that need a string."""
    merge_metadata_extras: bool = True
    """Merge the JSON strings `metadata.extra_body` and `metadata.chat_template_kwargs` into the request."""
    keep_token_ids: bool = False
    """Copy the training fields of history items to the assistant messages, for engines that check token prefixes."""


VLLM = Dialect()
"""vLLM and compatible engines: SGLang, NeMo RL's vLLM server."""

OPENAI = Dialect(
    drop_input_reasoning_items=True,
    inline_thinking=InlineThinking.LITERAL,
    bad_arguments=BadArguments.KEEP,
    merge_metadata_extras=False,
)
"""OpenAI and Azure: they do not parse the history, and their chat API has no reasoning."""
