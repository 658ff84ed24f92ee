"""Converts the logprobs of an answer's text between both APIs.

Chat has one list for all generated tokens, the Responses API one list per text. The tokens of a text are found in the
list by their bytes. Logprobs of reasoning, tags, tool calls and end tokens are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

MISSING_LOGPROB = -9999.0
"""vLLM's sentinel for a missing logprob, and the lower bound of its logprobs."""


def is_entry(entry: Mapping[str, Any]) -> bool:
    """Return whether `entry` and its `top_logprobs` are tokens with logprobs."""
    tops = entry.get("top_logprobs") or []
    return (
        isinstance(tops, list)
        and _is_flat_entry(entry)
        and all(isinstance(top, dict) and _is_flat_entry(top) for top in tops)
    )


def convert_logprobs_to_text(entries: Sequence[Mapping[str, Any]], text: str) -> list[dict[str, Any]] | None:
    """Return the entries of a chat choice's `logprobs.content` that spell `text`, as `output_text.logprobs`.

    None if no sequence of whole tokens spells `text`, for example if the engine wrote token ids instead of tokens.
    """
    pieces = [_read_bytes(entry) for entry in entries]
    wanted = text.encode("utf-8", "surrogatepass")
    start = b"".join(pieces).rfind(wanted)
    if start < 0 or not wanted:
        return None
    ends = list(accumulate(len(piece) for piece in pieces))
    bounds = {0, *ends}
    end = start + len(wanted)
    if start not in bounds or end not in bounds:
        return None
    return [
        _responses_entry(entry)
        for entry, piece, piece_end in zip(entries, pieces, ends, strict=True)
        if piece and start < piece_end <= end
    ]


def convert_logprobs_to_chat(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return `output_text.logprobs` as a chat choice's `logprobs.content`; only nullability differs."""
    return [{"bytes": None, "top_logprobs": [], **entry} for entry in entries]


def has_missing_logprobs(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a logprob is null (JSON has no NaN) or the sentinel."""
    return any(entry.get("logprob") is None or entry["logprob"] <= MISSING_LOGPROB for entry in entries)


def _is_flat_entry(entry: Mapping[str, Any]) -> bool:
    given = entry.get("bytes")
    return (
        isinstance(entry.get("token"), str)
        and isinstance(entry.get("logprob"), float | int | None)
        and (
            given is None
            or (isinstance(given, list) and all(type(byte) is int and 0 <= byte < 256 for byte in given))
        )
    )


def _responses_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_flat_entry(entry),
        "top_logprobs": [_flat_entry(top) for top in entry.get("top_logprobs") or ()],
    }


def _flat_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    logprob = entry.get("logprob")
    return {
        "token": entry["token"],
        "bytes": list(_read_bytes(entry)),
        "logprob": MISSING_LOGPROB if logprob is None else logprob,
    }


def _read_bytes(entry: Mapping[str, Any]) -> bytes:
    given = entry.get("bytes")
    return bytes(given) if given is not None else str(entry["token"]).encode("utf-8", "surrogatepass")
