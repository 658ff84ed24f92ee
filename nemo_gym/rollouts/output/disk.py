"""Every change that a run makes to its files, as a handful of operations.

Between any two of them, and in the middle of a write, the process may die; what it had done until then is there, and
nothing else. The journal is built to go on from every such state. The operations stand together so that this can be
tried out: `simulation` puts a disk in place that ends its process at a chosen operation.
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
    """The operating system's. Every operation raises `OSError`."""

    def open_to_append(self, path: Path) -> int:
        """A descriptor that reads anywhere and writes at the end; the file is made if need be."""
        return os.open(path, _APPENDING, 0o644)

    def open_to_replace(self, path: Path) -> int:
        """A descriptor of `path`, emptied."""
        return os.open(path, _REPLACING, 0o644)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        """The number of bytes written: some, if not all."""
        return os.write(descriptor, data)

    def cut(self, descriptor: int, size: int) -> None:
        """Shorten a file to `size` bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Return when the file would outlive a power cut."""
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, path: Path, target: Path) -> None:
        """Give a file another name, in one step that outlives a power cut; a file that has it is gone."""
        path.replace(target)
        folder = os.open(target.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with suppress(OSError):  # file systems that have no such operation order it themselves
                os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        """Remove a file if there is one."""
        path.unlink(missing_ok=True)


_disk = Disk()


def disk() -> Disk:
    """The disk that is in place."""
    return _disk


@contextmanager
def replaced_by(other: Disk) -> Iterator[None]:
    """Put `other` in place, in the whole process, while the block runs."""
    global _disk
    before, _disk = _disk, other
    try:
        yield
    finally:
        _disk = before


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of `data`, however many steps that takes."""
    left = memoryview(data)
    while left:
        left = left[_disk.write(descriptor, left) :]
