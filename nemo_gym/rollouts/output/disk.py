"""The system calls by which a run changes its files.

A process may die between any two of them and in the middle of a write; the effects until then persist. The journal can
resume from every such state. `simulation` tests this with a disk that ends the process at a chosen operation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_APPENDING: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_REPLACING: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class Disk:
    """The disk of the operating system. Every operation may raise `OSError`."""

    def open_to_append(self, path: Path) -> int:
        """Return a descriptor that reads anywhere and writes at the end; the file is created if necessary."""
        return os.open(path, _APPENDING, 0o644)

    def open_to_replace(self, path: Path) -> int:
        """Return a descriptor of `path`, truncated to 0 bytes."""
        return os.open(path, _REPLACING, 0o644)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """Write at least a part of `data`; return the number of bytes written."""
        return os.write(descriptor, data)

    def cut(self, descriptor: int, size: int) -> None:
        """Shorten a file to `size` bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Return when the file survives a power cut."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, path: Path, target: Path) -> None:
        """Rename a file atomically and durably, replacing `target`."""
        path.replace(target)
        folder = os.open(target.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # file systems without this operation order renames themselves
                os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        """Remove a file if it exists."""
        path.unlink(missing_ok=True)


_disk = Disk()


def disk() -> Disk:
    """Return the current disk."""
    return _disk


@contextmanager
def replaced_by(other: Disk) -> Iterator[None]:
    """Use `other` in the whole process while the block runs."""
    global _disk
    before, _disk = _disk, other
    try:
        yield
    finally:
        _disk = before


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of `data`."""
    left = memoryview(data)
    while left:
        left = left[_disk.write(descriptor, left) :]
