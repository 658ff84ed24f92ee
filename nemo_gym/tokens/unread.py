"""Token ids that nobody asked for: left out of an engine's answer before it is parsed.

Some engines send ids and log-probabilities with every answer. Of a long one they are nearly all bytes, and reading
them takes milliseconds.
"""

from __future__ import annotations

_NAMES = (b'"prompt_token_ids":', b'"generation_token_ids":', b'"generation_log_probs":', b'"token_ids":')
"""A name with the quote and the colon behind it stands in no JSON string: there its quote would be escaped."""
_OF_NUMBERS = b"0123456789+-.eE, \t\r\n"
_WORTH_IT = 1 << 15
"""Bytes of an answer from which on it is looked at."""


def without_token_lists(body: bytes) -> bytes:
    """The JSON `body` with its lists of ids and log-probabilities empty; what holds more than numbers stays."""
    if len(body) < _WORTH_IT:
        return body
    for name in _NAMES:
        found = body.find(name)
        while found >= 0:
            begin = found + len(name)
            end = body.find(b"]", begin)
            given = body[begin:end].lstrip()
            if end >= 0 and given.startswith(b"[") and not given[1:].translate(None, _OF_NUMBERS):
                body = b"%b[%b" % (body[:begin], body[end:])
            found = body.find(name, begin)
    return body
