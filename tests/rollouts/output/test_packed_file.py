"""Compressed files that grow: plain while they are open, compressed when they are closed."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import zstandard

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output import disk as disks
from nemo_gym.rollouts.output.atomic import replacing
from nemo_gym.rollouts.output.disk import Disk
from nemo_gym.rollouts.output.packed_file import append_to
from nemo_gym.rollouts.plan.compression import build_journal_path, holds_text
from tests.rollouts.output.packed import CONTENT, PACKINGS, ROWS, decompressed, lines


def write(path: Path, content: bytes) -> None:
    with replacing(path) as file:
        file.write(content)


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_row_can_be_read_when_append_returns_and_a_closed_file_has_no_journal(
    tmp_path: Path, packing: str
) -> None:
    path = tmp_path / f"rows.jsonl{packing}"
    with closing(append_to(path)) as file:
        for count, row in enumerate(ROWS, start=1):
            file.append(row)
            assert lines(path) == ROWS[:count]
            assert file.last_line() == row + b"\n"
    assert decompressed(path) == CONTENT
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("packing", PACKINGS)
def test_rows_go_on_behind_those_of_an_earlier_start(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"rows.jsonl{packing}"
    for count, row in enumerate(ROWS):
        with closing(append_to(path)) as file:
            assert file.recover(tmp_path / "torn") == 0
            assert lines(path) == ROWS[:count]
            file.append(row)
    assert decompressed(path) == CONTENT
    with closing(append_to(path)) as file:
        assert file.last_line() == ROWS[-1] + b"\n"


def test_a_file_that_nothing_was_added_to_stays_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(zstandard.compress(CONTENT[:200]) + zstandard.compress(CONTENT[200:]))
    before = path.read_bytes()
    append_to(path).close()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_without_a_row_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    append_to(path).close()
    assert path.read_bytes() == b""
    assert not holds_text(path)


def test_compression_is_worth_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    row = b'{"messages":["%b"]}' % b"the same words again and again " * 20
    with closing(append_to(path)) as file:
        for _ in range(5000):
            file.append(row)
    assert path.stat().st_size * 50 < 5000 * len(row)


class Died(BaseException):
    """The process is gone."""


class DyingDisk(Disk):
    """Dies at its `at`-th operation; of a write, half is done."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._open: set[int] = set()

    @property
    def has_killed(self) -> bool:
        return self._left <= 0

    def open_to_append(self, path: Path) -> int:
        self._step()
        return self._opened(super().open_to_append(path))

    def open_to_replace(self, path: Path) -> int:
        self._step()
        return self._opened(super().open_to_replace(path))

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._left -= 1
        if self._left == 0:
            super().write(descriptor, data[: len(data) // 2])
        self._die_if_due()
        return super().write(descriptor, data)

    def cut(self, descriptor: int, size: int) -> None:
        self._step()
        super().cut(descriptor, size)

    def sync(self, descriptor: int) -> None:
        self._step()

    def rename(self, path: Path, target: Path) -> None:
        self._step()
        super().rename(path, target)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            super().close(descriptor)

    def bury(self) -> None:
        """Close the files of the dead process, as the operating system would."""
        for descriptor in list(self._open):
            self.close(descriptor)

    def _opened(self, descriptor: int) -> int:
        self._open.add(descriptor)
        return descriptor

    def _step(self) -> None:
        self._left -= 1
        self._die_if_due()

    def _die_if_due(self) -> None:
        if self._left <= 0:
            raise Died


@contextmanager
def dying(at: int) -> Iterator[DyingDisk]:
    """The disk of a process that is dead after the block, if not before."""
    disk = DyingDisk(at)
    with disks.replaced_by(disk):
        try:
            yield disk
        except Died:
            disk.bury()


def finish(path: Path, done: list[bytes]) -> None:
    """Open the file, add the rows that it lacks, and close it; `done` gets each row when `append` has returned."""
    file = append_to(path)
    file.recover(path.with_name("torn.zst"))
    for row in ROWS[len(lines(path)) :]:
        file.append(row)
        done.append(row)
    file.close()


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("there", [0, 5, 12])
def test_no_row_is_lost_or_doubled_at_whichever_two_operations_the_writer_dies(
    tmp_path: Path, packing: str, there: int
) -> None:
    """With `there` rows in a compressed file of an earlier start."""
    deaths = 0
    for first, second in ((first, second) for first in range(1, 32) for second in range(1, 24, 7)):
        path = tmp_path / f"{first}_{second}" / f"rows.jsonl{packing}"
        write(path, b"".join(row + b"\n" for row in ROWS[:there]))
        done = ROWS[:there]
        for at in (first, second):
            with dying(at) as disk:
                finish(path, done)
            deaths += disk.has_killed
            assert lines(path)[: len(done)] == done, (first, second)
        finish(path, done)
        assert decompressed(path) == CONTENT, (first, second)
        assert lines(path) == ROWS, (first, second)
        assert not build_journal_path(path).exists()
    assert deaths > 80


@pytest.mark.parametrize("packing", PACKINGS)
def test_the_compressed_file_is_synced_before_it_takes_its_place_and_the_journal_goes_last(
    tmp_path: Path, packing: str
) -> None:
    class RecordingDisk(Disk):
        def sync(self, descriptor: int) -> None:
            super().sync(descriptor)
            told.append("sync")

        def rename(self, path: Path, target: Path) -> None:
            super().rename(path, target)
            told.append(f"rename {target.name}")

        def remove(self, path: Path) -> None:
            super().remove(path)
            told.append(f"remove {path.name}")

    told: list[str] = []
    name = f"rows.jsonl{packing}"
    with disks.replaced_by(RecordingDisk()):
        file = append_to(tmp_path / name)
        file.append(ROWS[0])
        file.close()
    assert told[:3] == ["sync", f"rename {name}", f"remove {name}.journal"]


@pytest.mark.parametrize("packing", PACKINGS)
def test_of_a_file_that_was_cut_off_everything_before_the_cut_is_kept(tmp_path: Path, packing: str) -> None:
    path, torn = tmp_path / f"rows.jsonl{packing}", tmp_path / "torn"
    rows = [b'{"n":%d,"noise":"%b"}' % (n, os.urandom(400).hex().encode()) for n in range(2000)]
    write(path, b"".join(row + b"\n" for row in rows))
    os.truncate(path, path.stat().st_size // 2)
    with closing(append_to(path)) as file:
        assert file.recover(torn) == torn.stat().st_size > 0
        kept = lines(path)
        file.append(ROWS[0])
    assert len(rows) // 3 < len(kept) < len(rows)
    assert rows[len(kept)].startswith(torn.read_bytes())
    assert decompressed(path).splitlines() == [*rows[: len(kept)], ROWS[0]]


def test_damage_that_is_not_at_the_end_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    write(path, CONTENT)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(ConfigError, match="is damaged"):
            append_to(path)
    assert path.read_bytes() == content


def test_a_row_that_was_compressed_elsewhere_without_a_line_break_gets_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(zstandard.compress(b"\n".join(ROWS[:2])))
    with closing(append_to(path)) as file:
        assert file.recover(tmp_path / "torn") == 0
        file.append(ROWS[2])
    assert decompressed(path).splitlines() == ROWS[:3]


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    with closing(append_to(path)), pytest.raises(ConfigError, match="another process is writing"):
        append_to(path)


def test_a_writer_that_opened_the_journal_before_its_owner_removed_it_is_refused(tmp_path: Path) -> None:
    class SlowDisk(Disk):
        def open_to_append(self, path: Path) -> int:
            descriptor = super().open_to_append(path)
            owner.close()
            return descriptor

    path = tmp_path / "rows.jsonl.gz"
    owner = append_to(path)
    owner.append(ROWS[0])
    with disks.replaced_by(SlowDisk()), pytest.raises(ConfigError, match="another process is writing"):
        append_to(path)
    assert lines(path) == ROWS[:1]


@pytest.mark.parametrize("packing", PACKINGS)
def test_rows_stay_in_the_journal_when_there_is_no_room_to_compress_them(
    tmp_path: Path, packing: str, caplog: pytest.LogCaptureFixture
) -> None:
    class FullDisk(Disk):
        def open_to_replace(self, path: Path) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / f"rows.jsonl{packing}"
    file = append_to(path)
    file.append(ROWS[0])
    with disks.replaced_by(FullDisk()), caplog.at_level(logging.WARNING):
        file.close()
    assert "No space left" in caplog.text
    assert build_journal_path(path).name in caplog.text
    assert lines(path) == ROWS[:1]
    append_to(path).close()
    assert decompressed(path).splitlines() == ROWS[:1]
