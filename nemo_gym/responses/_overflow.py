"""Recognizes context overflow in the error messages of engines.

Callers react differently to the two kinds: they retry with a shorter answer, or end the episode if the prompt is too
long. Engines have many similar messages, so this module matches known sentences and parses the numbers in them.
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
    """The prompt fits, but not with the requested answer; a shorter answer fits."""
    PROMPT = "prompt"
    """The prompt alone is too long."""


@dataclass(frozen=True, slots=True)
class Overflow:
    """A context overflow. Numbers are in tokens; None if the engine does not report them."""

    kind: OverflowKind
    limit: int | None = None
    """The length of the context."""
    prompt: int | None = None
    requested: int | None = None
    """The requested length of the answer."""

    @property
    def room(self) -> int | None:
        """The maximum length of an answer; negative if the prompt alone is too long, None if unknown."""
        if self.limit is None or self.prompt is None:
            return None
        return self.limit - self.prompt


def parse_overflow(status: int, message: str, code: object = None) -> Overflow | None:
    """Return the context overflow that an error answer reports, or None for any other error."""
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
