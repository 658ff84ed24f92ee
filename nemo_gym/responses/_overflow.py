"""Engines' ways of saying that prompt and answer don't fit into the context.

It matters which of the two is too long: a smaller answer can be asked for at once, a prompt that is too long ends
the episode. Engines word it in many ways, change the words, and word other errors alike, so this module knows the
sentences and reads the numbers out of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

OVERFLOW_STATUSES = frozenset({400, 413, 422, 500})
"""vLLM and OpenAI answer 400; others 413 or 422; SGLang may answer 500."""

_OVERFLOW = re.compile(
    r"maximum context length is|context length is only|context_length_exceeded|cannot be greater than max_model_len"
    r"|is too large: \d+\. this model|max_tokens must be at least 1, got -?\d+",
    re.IGNORECASE,
)
_BUDGET = re.compile(
    r"cannot be greater than max_model_len|is too large: \d+\. this model|max_tokens must be at least 1, got",
    re.IGNORECASE,
)

_LIMIT = re.compile(
    r"context length is (?:only )?(\d+)|max_model_len=(?:max_total_tokens=)?(\d+)", re.IGNORECASE
)
_PROMPT = re.compile(
    r"\((\d+) in the messages|(?:request has|passed|prompt contains)\s+(?:at least )?(\d+) input tokens",
    re.IGNORECASE,
)
_REQUESTED = re.compile(
    r"(\d+) in the completion|requested (\d+) output tokens|too large: (\d+)\."
    r"|max_(?:completion_)?tokens['’]?\s*=\s*(\d+)",
    re.IGNORECASE,
)


class OverflowKind(StrEnum):
    BUDGET = "budget"
    """The prompt fits, the answer that was asked for doesn't: ask for fewer tokens."""
    PROMPT = "prompt"
    """The prompt alone is too long: nothing can be asked after it."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """Prompt and answer don't fit. Numbers are tokens, None where the engine doesn't say."""

    kind: OverflowKind
    limit: int | None = None
    """The length of the context."""
    prompt: int | None = None
    requested: int | None = None
    """What was asked for as an answer."""

    @property
    def room(self) -> int | None:
        """How long an answer can be; negative when the prompt alone is too long, None when the engine doesn't say."""
        if self.limit is None or self.prompt is None:
            return None
        return self.limit - self.prompt


def overflow_of(status: int, message: str, code: object = None) -> Overflow | None:
    """What an error answer says about the context, or None when it is about something else."""
    if status not in OVERFLOW_STATUSES:
        return None
    if code != "context_length_exceeded" and not _OVERFLOW.search(message):
        return None
    limit, prompt, requested = (_number(pattern, message) for pattern in (_LIMIT, _PROMPT, _REQUESTED))
    if limit is not None and prompt is not None and (requested is not None or prompt >= limit):
        kind = OverflowKind.PROMPT if prompt >= limit else OverflowKind.BUDGET
    else:
        kind = OverflowKind.BUDGET if _BUDGET.search(message) else OverflowKind.PROMPT
    return Overflow(kind, limit, prompt, requested)


def _number(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    return int(next(group for group in found.groups() if group is not None)) if found else None
