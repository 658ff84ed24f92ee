"""The operations of the disk, and another disk in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.rollouts.output.disk import Disk, disk, replaced_by, write_all


class Slow(Disk):
    """Writes at most two bytes at a time."""

    writes = 0

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self.writes += 1
        return super().write(descriptor, data[:2])


def test_a_partial_write_is_continued(tmp_path: Path) -> None:
    slow = Slow()
    with replaced_by(slow):
        assert disk() is slow
        descriptor = slow.open_to_append(tmp_path / "a")
        write_all(descriptor, b"12345")
        slow.close(descriptor)
    assert (tmp_path / "a").read_bytes() == b"12345"
    assert slow.writes == 3


def test_the_disk_is_back_after_an_error() -> None:
    before = disk()
    with pytest.raises(OSError, match="full"), replaced_by(Slow()):
        raise OSError("full")
    assert disk() is before


def test_files_are_appended_replaced_cut_renamed_and_removed(tmp_path: Path) -> None:
    path, target = tmp_path / "a", tmp_path / "b"
    for content in (b"one", b"two"):
        descriptor = disk().open_to_append(path)
        write_all(descriptor, content)
        disk().close(descriptor)
    assert path.read_bytes() == b"onetwo"
    descriptor = disk().open_to_append(path)
    disk().cut(descriptor, 3)
    disk().sync(descriptor)
    disk().close(descriptor)
    target.write_bytes(b"old")
    disk().rename(path, target)
    assert (path.exists(), target.read_bytes()) == (False, b"one")
    disk().close(disk().open_to_replace(target))
    assert target.read_bytes() == b""
    disk().remove(target)
    disk().remove(target)
    assert not target.exists()
