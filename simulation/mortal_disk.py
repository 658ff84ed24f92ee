"""The disk of a process that may die at any operation: real files, in which the last write is perhaps half done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from nemo_gym.rollouts.output.disk import Disk
from simulation.events import Kind
from simulation.faults import Blow, CollectorFault, Fault
from simulation.processes import Process, ProcessEnded
from simulation.witness import Witness


class MortalDisk(Disk):
    """Counts operations over all starts of a run, and kills the process at those that the plan names.

    A dead process changes nothing any more; what it had open is closed, as the operating system would.
    """

    def __init__(self, witness: Witness, faults: Iterable[Fault], die: Callable[[str], None]) -> None:
        """`die` ends the process that is at work; it is told at what."""
        self._witness = witness
        self._die = die
        self._deaths = {
            (fault.file, int(fault.at)): fault.share
            for fault in faults
            if isinstance(fault, CollectorFault) and fault.blow is Blow.DIES_WRITING
        }
        self._files = ("", *{file: None for file, _ in self._deaths if file})
        """What operations are counted for: everything, and the files that a fault names."""
        self._counts: Counter[str] = Counter()
        self._open: dict[int, Path] = {}
        self._process = Process("nobody")

    @property
    def operations(self) -> int:
        """How many there have been."""
        return self._counts[""]

    def serve(self, process: Process) -> None:
        """From now on operations are those of `process`."""
        self._process = process

    def heal(self) -> None:
        """From now on nobody dies of an operation."""
        self._deaths.clear()

    def close_all(self) -> None:
        """What the operating system does for a dead process."""
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
        """Count an operation on `path`; what share of it is done when the process dies of it, None when it lives."""
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
        self._witness.note(Kind.WROTE, path.name)
        return count
