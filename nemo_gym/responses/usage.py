"""Converts token counts between both APIs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def convert_usage_to_responses(usage: object) -> dict[str, Any] | None:
    """Return a chat `usage` as one of the Responses API.

    A missing count is computed from the other two. If that is impossible, the result is None, because a zero would look
    like a measurement. Missing details are zero, as the API requires.
    """
    if not isinstance(usage, dict):
        return None
    counts = _counts(usage, "prompt_tokens", "completion_tokens")
    if counts is None:
        return None
    prompt, completion, total = counts
    prompt_details = _details(usage, "prompt_tokens_details")
    reasoning = usage_detail(usage, "completion_tokens_details", "reasoning_tokens") or 0
    return {
        "input_tokens": prompt,
        "input_tokens_details": {
            "cached_tokens": _count(prompt_details, "cached_tokens") or 0,
            "cache_write_tokens": _count(prompt_details, "cache_write_tokens") or 0,
        },
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": total,
    }


def convert_usage_to_chat(usage: object) -> dict[str, Any] | None:
    """Return a Responses `usage` as one of Chat Completions, or None as in `convert_usage_to_responses`."""
    if not isinstance(usage, dict):
        return None
    counts = _counts(usage, "input_tokens", "output_tokens")
    if counts is None:
        return None
    prompt, completion, total = counts
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": 0, **_details(usage, "input_tokens_details")},
        "completion_tokens_details": {"reasoning_tokens": 0, **_details(usage, "output_tokens_details")},
    }


def read_completion_tokens(usage: object) -> int | None:
    """Return the number of tokens of a chat answer, or None if its `usage` does not report it."""
    return _count(usage, "completion_tokens") if isinstance(usage, dict) else None


def usage_detail(usage: Mapping[str, Any], details: str, name: str, *names_beside: str) -> int | None:
    """Return the count `name` in the details of a `usage`, or beside its totals, where some engines put it.

    `names_beside` are other names that it may have there. None if it is not reported.
    """
    found = _count(_details(usage, details), name)
    counts = (_count(usage, each) for each in (name, *names_beside))
    return found if found is not None else next((count for count in counts if count is not None), None)


def _details(usage: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    details = usage.get(name)
    return details if isinstance(details, dict) else {}


def _count(counts: Mapping[str, Any], name: str) -> int | None:
    value = counts.get(name)
    return value if type(value) is int and value >= 0 else None


def _counts(usage: Mapping[str, Any], prompt_name: str, completion_name: str) -> tuple[int, int, int] | None:
    """Return prompt, completion and total, of which one may be missing."""
    prompt, completion = _count(usage, prompt_name), _count(usage, completion_name)
    total = _count(usage, "total_tokens")
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    elif completion is None and prompt is not None and total is not None and total >= prompt:
        completion = total - prompt
    elif prompt is None and completion is not None and total is not None and total >= completion:
        prompt = total - completion
    return None if prompt is None or completion is None or total is None else (prompt, completion, total)


def read_token_counts(usage: object) -> tuple[int, int, int]:
    """Return the input, cached and output tokens of a `usage` of any API; 0 for counts that it lacks.

    The input tokens include the cached ones; Anthropic's `input_tokens` leave them out.
    """
    if not isinstance(usage, Mapping):
        return 0, 0, 0
    read, created = (
        _count(usage, name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens")
    )
    given = _count(usage, "input_tokens") or _count(usage, "prompt_tokens") or 0
    details = _details(usage, "input_tokens_details") or _details(usage, "prompt_tokens_details")
    output = _count(usage, "output_tokens") or _count(usage, "completion_tokens") or 0
    return given + read + created, read or _count(details, "cached_tokens") or 0, output
