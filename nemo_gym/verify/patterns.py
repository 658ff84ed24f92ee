"""Search with regular expressions of task rows, which may backtrack catastrophically.

Run it in a worker with a deadline: `await pool.run(last_capture, patterns, text, timeout_s=2)`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from nemo_gym.failures import InputError

__all__ = ["last_capture"]


def last_capture(patterns: Sequence[str], text: str, flags: int = re.IGNORECASE) -> str | None:
    """Return the capture of the last match of the first pattern that occurs in `text`; case is ignored by default.

    The capture is the first group that took part in the match, or the whole match when the pattern has no groups.
    Raises InputError for an invalid pattern.
    """
    for pattern in patterns:
        last_only = deque(_compile(pattern, flags).finditer(text), maxlen=1)
        for match in last_only:
            return next((group for group in match.groups() if group is not None), match[0]).strip()
    return None


def _compile(pattern: str, flags: int) -> re.Pattern[str]:
    try:
        return re.compile(pattern, flags)
    except re.error as error:
        raise InputError(
            f"The regular expression {pattern!r} of the task row is invalid: {error}.",
            code="invalid_regex",
            remedy="Correct it in the dataset.",
        ) from error
