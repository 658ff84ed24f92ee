"""A file of an attempt's record, to which one process appends lines of JSON."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import orjson

_KEPT_BYTES = 1
"""Bytes of a file that is emptied: its first newline. ext4 writes a file to the disk that it has seen without any."""


class RecordFile:
    """Appends lines to a file of a record. Raises `OSError` if a line cannot be written whole."""

    def __init__(self, folder: str | Path, process: str, suffix: str, *, is_new: bool = False) -> None:
        """`process` is unique among those that write to the record. `is_new`: lines in the file are of another one."""
        self._path = f"{folder}/{_name_file(process, suffix)}"
        self._descriptor: int | None = None
        self._is_begun = False
        self._is_new = is_new

    @property
    def path(self) -> Path:
        return Path(self._path)

    def append(self, line: Mapping[str, Any]) -> None:
        """Append a line. Raises `FileNotFoundError` if the file was deleted after an earlier one."""
        data = orjson.dumps(line) + b"\n"
        if self._descriptor is None:
            self._descriptor = self._open()
            if not self._is_begun:
                data = b"\n" + data  # the last line of an earlier process may be torn
            self._is_begun = True
        if os.write(self._descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, "the disk is full")

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        if self._is_begun:
            return os.open(self._path, flags)
        flags |= os.O_CREAT
        try:
            descriptor = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._path, flags, 0o600)
        if self._is_new and os.lseek(descriptor, 0, os.SEEK_END) > _KEPT_BYTES:
            os.ftruncate(descriptor, _KEPT_BYTES)
        return descriptor

    def flush(self) -> None:
        """Wait until all lines are on the disk."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Close the file, which the next line opens again.

        A file that is deleted while it is open keeps its inode: with hundreds of them, making the next one costs ten
        times as much.
        """
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


@cache
def _name_file(process: str, suffix: str) -> str:
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in process) + suffix
