"""A JSONL file that only grows, a whole line at a time, and that outlives the death of its writer.

Each line is handed to the operating system by one write before `append` returns: nothing waits in this process, so
`kill -9` loses nothing that was finished. What a power cut or a full disk tears can only be the end of the file;
`recover` cuts it off and keeps it apart.
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from typing import Final

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.disk import disk, write_all

log = logging.getLogger(__name__)

_BLOCK: Final = 1 << 16


class AppendFile:
    """A JSONL file open for appending, locked against a second writer."""

    def __init__(self, path: Path) -> None:
        """Raises `ConfigError` when the file cannot be opened, or when another process is writing it."""
        self.path = path
        try:
            self._fd = disk().open_to_append(path)
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}", code="output_unwritable") from error
        self._lock()
        self._size = os.fstat(self._fd).st_size

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def append(self, line: bytes) -> None:
        """Write `line`, which has no line break, and end it. Raises `ConfigError` when the disk refuses it."""
        self._add(line + b"\n")

    def _add(self, data: bytes) -> None:
        """Write `data` whole or not at all."""
        try:
            write_all(self._fd, data)
        except OSError as error:
            disk().cut(self._fd, self._size)
            raise ConfigError(
                f"cannot write {self.path}: {error.strerror}; every row before is safe",
                code="output_unwritable",
                remedy="Make room, then go on with +resume_from_cache=true.",
            ) from error
        self._size += len(data)

    def recover(self, keep_torn_at: Path) -> int:
        """Cut a torn end off, keeping it at `keep_torn_at`, and give the number of bytes cut.

        Torn is a last line that is not a JSON object. One that is whole and only lacks its line break is given it.
        """
        last = self.last_line()
        if not last or is_object(last):
            if last and not last.endswith(b"\n"):
                self._add(b"\n")
            return 0
        write_atomically(keep_torn_at, last)
        self._size -= len(last)
        disk().cut(self._fd, self._size)
        return len(last)

    def last_line(self) -> bytes:
        """The line that the file ends with, its line break included; empty for an empty file."""
        start = self._start_of_last_line()
        return os.pread(self._fd, self._size - start, start)

    def close(self) -> None:
        try:
            disk().sync(self._fd)
        finally:
            disk().close(self._fd)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self.path.exists():  # its writer removed it before we had the lock
                raise BlockingIOError
        except BlockingIOError as error:
            disk().close(self._fd)
            raise ConfigError(
                f"another process is writing {self.path}",
                code="output_locked",
                remedy="Wait for it or stop it, or choose another +output_jsonl_fpath.",
            ) from error
        except OSError as error:
            log.info(
                "%s is on a file system without locks (%s): see that one process writes it", self.path, error
            )

    def _start_of_last_line(self) -> int:
        """The place where the last line begins; a final line break begins no other line."""
        end = self._size - 1
        while end > 0:
            start = max(0, end - _BLOCK)
            place = os.pread(self._fd, end - start, start).rfind(b"\n")
            if place >= 0:
                return start + place + 1
            end = start
        return 0


def is_object(line: bytes) -> bool:
    """Whether a line is a JSON object."""
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False
