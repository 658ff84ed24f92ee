"""A disk on which the process may crash at any operation: real files, with a possibly partial last write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from nemo_gym.rollouts.output.disk import Disk
from simulation.events import Kind
from simulation.faults import CollectorFault, CollectorFaultKind, Fault
from simulation.monitor import Monitor
from simulation.processes import Process, ProcessEnded


class CrashingDisk(Disk):
    """Counts operations over all starts of a run, and kills the process at the operations in the plan.

    A dead process can change nothing. Its open files are closed, as an operating system would do.
    """

    def __init__(self, monitor: Monitor, faults: Iterable[Fault], die: Callable[[str], None]) -> None:
        """`die` ends the current process. Its argument describes the operation."""
        self._monitor = monitor
        self._die = die
        self._deaths = {
            (fault.file, int(fault.at)): fault.share
            for fault in faults
            if isinstance(fault, CollectorFault) and fault.kind is CollectorFaultKind.DIES_WRITING
        }
        self._files = ("", *{file: None for file, _ in self._deaths if file})
        """File names with a counter. The empty name counts all operations."""
        self._counts: Counter[str] = Counter()
        self._open: dict[int, Path] = {}
        self._process = Process("none")

    @property
    def operations(self) -> int:
        """The number of operations so far."""
        return self._counts[""]

    def serve(self, process: Process) -> None:
        """Attribute all further operations to `process`."""
        self._process = process

    def disarm(self) -> None:
        """Cancel all remaining crashes."""
        self._deaths.clear()

    def close_all(self) -> None:
        """Close the files of a dead process."""
        for descriptor in list(self._open):
            super().close(descriptor)
        self._open.clear()

    # --- Operations ---------------------------------------------------------------------------------------------

    def open_to_append(self, path: Path) -> int:
        self._step("opening", path)
        return self._opened(super().open_to_append(path), path)

    def open_to_replace(self, path: Path) -> int:
        self._step("emptying", path)
        return self._opened(super().open_to_replace(path), path)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._process.require_alive()
        path = self._open[descriptor]
        share = self._next_death(path)
        if share is None:
            return self._written(super().write(descriptor, data), path)
        self._written(super().write(descriptor, data[: int(share * len(data))]), path)
        raise self._death(f"writing {path.name}, {100 * share:.0f} % of it done")

    def cut(self, descriptor: int, size: int) -> None:
        self._step("cutting", self._open[descriptor])
        super().cut(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._step("syncing", self._open[descriptor])

    def close(self, descriptor: int) -> None:
        if self._open.pop(descriptor, None) is not None:
            super().close(descriptor)

    def rename(self, path: Path, target: Path) -> None:
        self._step("renaming", path)
        super().rename(path, target)

    def remove(self, path: Path) -> None:
        self._step("removing", path)
        super().remove(path)

    # --- Dying --------------------------------------------------------------------------------------------------

    def _step(self, what: str, path: Path) -> None:
        self._process.require_alive()
        if self._next_death(path) is not None:
            raise self._death(f"{what} {path.name}")

    def _next_death(self, path: Path) -> float | None:
        """Count an operation on `path`. Return the completed share if the process crashes at it, otherwise None."""
        share = None
        for file in self._files:
            if file in path.name:
                self._counts[file] += 1
                share = self._deaths.pop((file, self._counts[file]), share)
        return share

    def _death(self, what: str) -> ProcessEnded:
        self._die(what)
        return ProcessEnded(what)

    def _opened(self, descriptor: int, path: Path) -> int:
        self._open[descriptor] = path
        return descriptor

    def _written(self, count: int, path: Path) -> int:
        self._monitor.record(Kind.WROTE, path.name)
        return count
