"""`<stem>_events.jsonl`: the accepted requests of control (`nemo_gym.rollouts.control.events`), one object a line."""

from __future__ import annotations

from nemo_gym.rollouts.output._append_file import AppendFile
from nemo_gym.rollouts.output.files import RunFiles


class EventFile:
    """The open file. A line that a killed process has left incomplete is kept apart."""

    def __init__(self, files: RunFiles) -> None:
        """Raises `ConfigError` if the file cannot be opened."""
        self._file = AppendFile(files.events)
        self._file.recover(files.first_free_torn())

    def append(self, line: bytes) -> None:
        """Write a line. Raises `ConfigError` if the disk refuses it."""
        self._file.append(line)

    def close(self) -> None:
        self._file.close()
