"""Token ids that nobody asked for: left out of an engine's answer before it is parsed.

Some engines send ids and log-probabilities with every answer. Of a long one they are nearly all bytes, and reading
them takes milliseconds.
"""

from __future__ import annotations

_NAMES = (b'"generation_log_probs":', b'"generation_token_ids":', b'"token_ids":', b'"prompt_token_ids":')
"""The longest first: what is cut is not searched again. A name with the quote and the colon behind it stands in no JSON
string, where its quote would be escaped."""
_OF_OTHER_VALUES = tuple(bytes([byte]) for byte in b'"[{ntfNI')
"""One of these is in every JSON value, or would-be value, that is no number."""
_WORTH_IT = 1 << 15
"""Bytes of an answer from which on it is looked at."""


def without_token_lists(body: bytes) -> bytes:
    """The JSON `body` with its lists of ids and log-probabilities empty; what holds more than numbers stays."""
    if len(body) < _WORTH_IT:
        return body
    for name in _NAMES:
        found = body.find(name)
        while found >= 0:
            after = found + len(name)
            begin = body.find(b"[", after) + 1
            end = body.find(b"]", begin)
            if 0 < begin <= end and _is_list_of_numbers(body[after:end]):
                body = body[:begin] + body[end:]
            found = body.find(name, after)
    return body


def _is_list_of_numbers(value: bytes) -> bool:
    """Whether what stands between a name and the next closing bracket begins a list and goes on with numbers."""
    begins, _, inside = value.partition(b"[")
    return not begins.strip() and not any(mark in inside for mark in _OF_OTHER_VALUES)
