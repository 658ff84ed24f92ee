"""An append-only JSONL file that survives the death of its writer.

`append` passes each line to the operating system in one write and buffers nothing, so `kill -9` loses no finished row.
A power cut or a full disk can damage only the end of the file; `recover` cuts a torn end off and keeps it separately.
A file that another program deletes, replaces or truncates is noticed at the next row, or at the end of the run.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nemo_gym.failures import ConfigError
from nemo_gym.json_objects import object_in
from nemo_gym.rollouts.output.atomic import write_atomically
from nemo_gym.rollouts.output.disk import disk, write_all

log = logging.getLogger(__name__)

_BLOCK: Final = 1 << 16


class AppendFile:
    """A JSONL file, open for appending and locked against other writers."""

    def __init__(self, path: Path) -> None:
        """Raises `ConfigError` if the file cannot be opened, or if another process is writing it."""
        self.path = path
        self._open()

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self._size

    def append(self, line: bytes) -> None:
        """Write `line`, or several lines, and a line break.

        Raises `ConfigError` if the disk refuses it, or as `refuse_changes` does; then nothing is written.
        """
        self.refuse_changes()
        self._add(line + b"\n")

    def refuse_changes(self) -> None:
        """Raise `ConfigError` if another program has deleted, replaced, truncated or extended the file."""
        change = self._find_change()
        if change is not None:
            raise ConfigError(
                f"{self.path} {change} by another program during the run",
                code="output_changed",
                remedy="Keep other programs away from the files of a run, then resume with +resume_from_cache=true: "
                "rollouts whose rows are lost are attempted again.",
            )

    def replace(self, lines: Iterable[bytes]) -> None:
        """Replace the whole content by `lines` atomically. Raises `ConfigError` if the disk refuses it."""
        write_atomically(self.path, lines)
        disk().close(self._fd)
        self._open()

    def _add(self, data: bytes) -> None:
        """Write all of `data` or nothing."""
        try:
            write_all(self._fd, data)
        except OSError as error:
            disk().cut(self._fd, self._size)
            raise ConfigError(
                f"cannot write {self.path}: {error.strerror}; all earlier rows are safe",
                code="output_unwritable",
                remedy="Free disk space, then resume with +resume_from_cache=true.",
            ) from error
        self._size += len(data)

    def recover(self, keep_torn_at: Path) -> int:
        """Move a torn last line to `keep_torn_at`; return its number of bytes.

        A last line that is not a JSON object is torn. A complete one without a line break gets one.
        """
        last = self.last_line()
        if not last or object_in(last) is not None:
            if last and not last.endswith(b"\n"):
                self._add(b"\n")
            return 0
        write_atomically(keep_torn_at, last)
        self._size -= len(last)
        disk().cut(self._fd, self._size)
        return len(last)

    def last_line(self) -> bytes:
        """Return the last line with its line break; empty for an empty file."""
        start = self._find_last_line()
        return os.pread(self._fd, self._size - start, start)

    def close(self) -> None:
        try:
            disk().sync(self._fd)
        finally:
            disk().close(self._fd)

    def _open(self) -> None:
        try:
            self._fd = disk().open_to_append(self.path)
        except OSError as error:
            raise ConfigError(
                f"cannot write {self.path}: {error.strerror}", code="output_unwritable"
            ) from error
        self._lock()
        status = self.path.stat()
        self._inode = status.st_dev, status.st_ino
        self._size = status.st_size

    def _find_change(self) -> str | None:
        try:
            status = self.path.stat()
        except OSError:
            return "was deleted"
        if (status.st_dev, status.st_ino) != self._inode:
            return "was replaced"
        if status.st_size < self._size:
            return f"was truncated from {self._size:,} to {status.st_size:,} bytes"
        return "was written to" if status.st_size > self._size else None

    def _lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self.path.exists():  # its writer removed it before this process got the lock
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
                "%s is on a file system without locks (%s): make sure that only one process writes it",
                self.path,
                error,
            )

    def _find_last_line(self) -> int:
        """Return the offset of the last line, ignoring a final line break."""
        end = self._size - 1
        while end > 0:
            start = max(0, end - _BLOCK)
            place = os.pread(self._fd, end - start, start).rfind(b"\n")
            if place >= 0:
                return start + place + 1
            end = start
        return 0
