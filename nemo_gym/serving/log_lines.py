"""The form of the lines of a server's log. The viewer finds those of a failure by their time."""

from __future__ import annotations

import logging

from nemo_gym.clock import log_time
from nemo_gym.json_objects import replace_surrogates


class LogFormatter(logging.Formatter):
    """Formats a record as `2026-05-01 18:30:00,120Z INFO message`, with the time in UTC."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. A half of a character, which no file can hold, is replaced."""
        return replace_surrogates(super().format(record))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        return log_time(record.created)
