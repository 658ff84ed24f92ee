"""Append-only files of lines, and the record of a rollout: one file per model server process, merged on reading.

A line is one model call, written in one piece before its answer is sent. A process that is killed loses no line whose
answer was sent; the rest of a torn line is skipped on reading, and counted.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from nemo_gym.failures import EngineError
from nemo_gym.json_objects import object_in

_SUFFIX = ".calls.jsonl"


class RecordLines(NamedTuple):
    """Lines of a record, in the order in which the calls ended."""

    lines: list[dict[str, Any]]
    damaged: int
    """The number of lines that are not JSON objects."""


class RecordWriter:
    """Appends the calls of one model server process to the records of rollouts."""

    def __init__(self, name: str) -> None:
        """`name` is unique among the processes that write to one record."""
        self._file = "".join(c if c.isalnum() or c in "_-." else "_" for c in name) + _SUFFIX

    def append(self, folder: Path, line: Mapping[str, Any]) -> None:
        """Append one call. Raises `EngineError` if it cannot be written."""
        path = folder / self._file
        try:
            append_line(path, line)
        except OSError as error:
            raise _unwritable(path, error.strerror or repr(error)) from error


def append_line(path: Path, line: Mapping[str, Any], *, is_shared: bool = False) -> None:
    """Append a line in one write. Raises `OSError` if it is not written whole.

    A shared file is locked meanwhile and flushed to the disk, so that processes of several machines can append to it.
    """
    data = orjson.dumps(line, default=str) + b"\n"
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666 if is_shared else 0o600)
    try:
        if is_shared:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_torn(descriptor):
            data = b"\n" + data
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, "the disk is full")
        if is_shared:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


class RecordReader:
    """Reads a record as it grows: each call of `new` returns the lines since the last one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}
        """The number of bytes that were read, by file."""

    def new(self) -> RecordLines:
        lines: list[dict[str, Any]] = []
        damaged = 0
        for path, size in _files_in(self._folder):
            read = self._read.get(path, 0)
            if size <= read:
                continue
            with open(path, "rb") as file:  # noqa: PTH123 - every call reads, and a Path costs more than the file
                file.seek(read)
                whole, end, _ = file.read().rpartition(b"\n")
            self._read[path] = read + len(whole) + len(end)
            parsed = [_parse(line) for line in whole.split(b"\n") if line]
            lines += filter(None, parsed)
            damaged += parsed.count(None)
        lines.sort(key=lambda line: line["completed_at"])
        return RecordLines(lines, damaged)


def read_record(folder: Path) -> RecordLines:
    """Return the calls that all model servers have recorded in `folder`."""
    return RecordReader(folder).new()


def _files_in(folder: Path) -> list[tuple[str, int]]:
    """Return the paths and sizes of the files of a record, by name; none for a folder that does not exist."""
    try:
        with os.scandir(folder) as entries:
            return sorted((each.path, each.stat().st_size) for each in entries if each.name.endswith(_SUFFIX))
    except FileNotFoundError:
        return []


def _parse(line: bytes) -> dict[str, Any] | None:
    value = object_in(line)
    return value if value is not None and "completed_at" in value else None


def _is_torn(descriptor: int) -> bool:
    """Return whether the file's last line has no end, because its writer was killed."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _unwritable(path: Path, reason: str) -> EngineError:
    return EngineError(
        f"the call cannot be recorded in {path}: {reason}",
        code="record_unwritable",
        remedy="Free disk space, or set model_call_capture_dir to another folder.",
        status=500,
    )
