from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nemo_gym.rollouts.output import disk as disks
from simulation.crashing_disk import CrashingDisk
from simulation.faults import CollectorFault, CollectorFaultKind
from simulation.monitor import Monitor
from simulation.processes import Process, ProcessEnded

ROW = b'{"a":1}\n'


def write_file(path: Path, content: bytes) -> None:
    """Empty the file, write it, and have it on the disk."""
    descriptor = disks.disk().open_to_replace(path)
    try:
        disks.write_all(descriptor, content)
        disks.disk().sync(descriptor)
    finally:
        disks.disk().close(descriptor)


class Victim:
    """A process on a disk that may kill it."""

    def __init__(self, *faults: CollectorFault) -> None:
        self.died_at: list[str] = []
        self.process = Process("collector")
        self.disk = CrashingDisk(Monitor(lambda: 0.0), faults, self._die)
        self.disk.serve(self.process)

    def _die(self, what: str) -> None:
        self.died_at.append(what)
        self.process.is_alive = False

    def does(self, work: Callable[[], None]) -> bool:
        """Run `work`. Return whether the process survives it."""
        with disks.replaced_by(self.disk):
            try:
                work()
            except ProcessEnded:
                return False
        return True


def test_half_of_a_write_is_done_by_a_process_that_dies_of_it(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    victim = Victim(CollectorFault(CollectorFaultKind.DIES_WRITING, 2, 0.5))
    assert not victim.does(lambda: write_file(path, ROW))
    assert path.read_bytes() == ROW[:4]
    assert victim.died_at == ["writing out.jsonl, 50 % of it done"]


def test_a_dead_process_changes_nothing_any_more(tmp_path: Path) -> None:
    path, other = tmp_path / "out.jsonl", tmp_path / "other"
    victim = Victim(CollectorFault(CollectorFaultKind.DIES_WRITING, 2, 0.0))
    assert not victim.does(lambda: write_file(path, ROW))
    assert not victim.does(lambda: write_file(other, ROW))
    assert not victim.does(lambda: disks.disk().rename(path, other))
    assert not other.exists()
    assert victim.died_at == ["writing out.jsonl, 0 % of it done"]


def test_operations_are_counted_over_all_processes_and_by_the_file_that_is_named(tmp_path: Path) -> None:
    rows, manifest = tmp_path / "out.jsonl", tmp_path / ".out_run.json.draft"
    victim = Victim(CollectorFault(CollectorFaultKind.DIES_WRITING, 5, 1.0, "out_run.json"))
    for _ in range(3):
        assert victim.does(lambda: write_file(rows, ROW))
    assert victim.does(lambda: write_file(manifest, ROW))  # emptied, written, synced
    victim.disk.serve(Process("collector"))
    assert victim.does(lambda: write_file(rows, ROW))
    assert not victim.does(lambda: write_file(manifest, ROW))
    assert victim.died_at == ["writing .out_run.json.draft, 100 % of it done"]


def test_a_disarmed_disk_crashes_no_process(tmp_path: Path) -> None:
    victim = Victim(CollectorFault(CollectorFaultKind.DIES_WRITING, 1, 0.5))
    victim.disk.disarm()
    assert victim.does(lambda: write_file(tmp_path / "out.jsonl", ROW))
    assert (tmp_path / "out.jsonl").read_bytes() == ROW
    assert victim.disk.operations == 3


@pytest.mark.parametrize("share", [0.0, 0.99])
def test_what_a_dead_process_had_open_is_closed(tmp_path: Path, share: float) -> None:
    victim = Victim(CollectorFault(CollectorFaultKind.DIES_WRITING, 2, share))
    opened: list[int] = []

    def append() -> None:
        opened.append(disks.disk().open_to_append(tmp_path / "out.jsonl"))
        disks.write_all(opened[0], ROW)

    assert not victim.does(append)
    victim.disk.close_all()
    with pytest.raises(OSError, match="Bad file descriptor"):
        disks.Disk().sync(opened[0])
