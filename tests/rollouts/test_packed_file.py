"""Compressed files that only grow."""

from __future__ import annotations

import gzip
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts import disk as disks
from nemo_gym.rollouts.compression import CODECS, Decompressor
from nemo_gym.rollouts.dataset import open_dataset, opened_plain
from nemo_gym.rollouts.disk import Disk
from nemo_gym.rollouts.packed_file import PackedFile, append_to, open_packed, tail_of

ROWS = [b'{"n":%d,"text":"%b"}' % (number, b"x" * (7 * number % 40)) for number in range(12)]
PACKINGS = sorted(CODECS)


@contextmanager
def opened(path: Path, frame_bytes: int = 100) -> Iterator[PackedFile]:
    file = PackedFile(path, CODECS[path.suffix], frame_bytes=frame_bytes)
    try:
        yield file
    finally:
        file.close()


def lines(path: Path) -> list[bytes]:
    with open_dataset(path) as file:
        return file.read().splitlines()


def decompressed(path: Path) -> bytes:
    """What a tool of somebody else's makes of the file."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        return gzip.decompress(content)
    with zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True) as reader:
        return reader.read()


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_row_can_be_read_when_append_returns_and_a_closed_file_needs_no_tail(
    tmp_path: Path, packing: str
) -> None:
    path = tmp_path / f"rows.jsonl{packing}"
    with opened(path) as file:
        for count, row in enumerate(ROWS, start=1):
            file.append(row)
            assert lines(path) == ROWS[:count]
            assert file.last_line() == row + b"\n"
    assert decompressed(path).splitlines() == ROWS
    assert not tail_of(path).exists()


def test_rows_go_on_behind_those_of_an_earlier_start(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    for row in ROWS:
        with opened(path) as file:
            assert file.recover(tmp_path / "torn") == 0
            file.append(row)
    assert decompressed(path).splitlines() == ROWS
    with opened(path) as file:
        assert file.last_line() == ROWS[-1] + b"\n"


def test_compression_is_worth_it(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    file = append_to(path)
    row = b'{"messages":["%b"]}' % b"the same words again and again " * 20
    for _ in range(5000):
        file.append(row)
    file.close()
    assert path.stat().st_size * 50 < 5000 * len(row)


class Died(BaseException):
    """The process is gone."""


class DyingDisk(Disk):
    """Dies at its `at`-th operation; of a write, half is done."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._open: set[int] = set()

    def open_to_append(self, path: Path) -> int:
        self._step()
        descriptor = super().open_to_append(path)
        self._open.add(descriptor)
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._left -= 1
        if self._left == 0:
            super().write(descriptor, data[: len(data) // 2])
        self._die_if_due()
        return super().write(descriptor, data)

    def cut(self, descriptor: int, size: int) -> None:
        self._step()
        super().cut(descriptor, size)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def close(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            super().close(descriptor)

    def bury(self) -> None:
        """What the operating system does for a dead process."""
        for descriptor in list(self._open):
            self.close(descriptor)

    def _step(self) -> None:
        self._left -= 1
        self._die_if_due()

    def _die_if_due(self) -> None:
        if self._left <= 0:
            raise Died


def write_until_death(path: Path, disk: DyingDisk, frame_bytes: int) -> list[bytes]:
    """The rows of which `append` had returned."""
    done: list[bytes] = []
    with disks.replaced_by(disk):
        try:
            file = PackedFile(path, CODECS[path.suffix], frame_bytes=frame_bytes)
            file.recover(path.with_name("torn"))
            before = lines(path)
            for row in ROWS[len(before) :]:
                file.append(row)
                done.append(row)
            file.close()
        except Died:
            disk.bury()
    return done


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("frame_bytes", [1, 100])
def test_whatever_operation_its_writer_dies_at_no_row_is_lost_or_doubled(
    tmp_path: Path, packing: str, frame_bytes: int
) -> None:
    for at in range(1, 60):
        path = tmp_path / str(at) / f"rows.jsonl{packing}"
        path.parent.mkdir()
        done = write_until_death(path, DyingDisk(at), frame_bytes)
        seen = lines(path) if path.exists() or tail_of(path).exists() else []
        assert seen[: len(done)] == done, at
        write_until_death(path, DyingDisk(random.Random(at).randrange(2, 40)), frame_bytes)
        with opened(path, frame_bytes) as file:
            file.recover(path.with_name("torn"))
            before = lines(path)
            assert before == ROWS[: len(before)], at
            for row in ROWS[len(before) :]:
                file.append(row)
        assert decompressed(path).splitlines() == ROWS, at


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_torn_frame_without_a_tail_is_cut_off_and_kept(tmp_path: Path, packing: str) -> None:
    path, torn = tmp_path / f"rows.jsonl{packing}", tmp_path / "torn"
    with opened(path, frame_bytes=1) as file:
        for row in ROWS[:3]:
            file.append(row)
    whole = path.stat().st_size
    with opened(path) as file:
        file.append(ROWS[3])
    os.truncate(path, path.stat().st_size - 5)
    with opened(path) as file:
        assert file.recover(torn) == torn.stat().st_size > 0
        assert path.stat().st_size == whole
    assert lines(path) == ROWS[:3]


def test_damage_that_is_not_at_the_end_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    with opened(path, frame_bytes=1) as file:
        for row in ROWS:
            file.append(row)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    with opened(path) as file, pytest.raises(ConfigError, match="is damaged behind its byte"):
        file.recover(tmp_path / "torn")
    assert path.read_bytes() == content


def test_a_row_that_somebody_else_compressed_without_its_line_break_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(zstandard.compress(b"\n".join(ROWS[:2])))
    with opened(path) as file:
        assert file.recover(tmp_path / "torn") == 0
        file.append(ROWS[2])
    assert decompressed(path).splitlines() == ROWS[:3]


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    with opened(path), pytest.raises(ConfigError, match="another process is writing"):
        append_to(path)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst"])
def test_any_form_can_be_read_anywhere(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    file = append_to(path)
    for row in ROWS:
        file.append(row)
    with opened_plain(path) as plain:
        content = b"".join(row + b"\n" for row in ROWS)
        assert os.pread(plain.fileno(), 30, 100) == content[100:130]
        assert plain.read() == content
    file.close()


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("frame_bytes", [1, 60, 100])
def test_a_reader_meets_every_row_once_while_rows_become_frames_under_it(
    tmp_path: Path, packing: str, frame_bytes: int
) -> None:
    path = tmp_path / f"rows.jsonl{packing}"
    codec = CODECS[packing]
    with opened(path, frame_bytes) as file:
        for row in ROWS[:3]:
            file.append(row)
        coming = iter(ROWS[3:])

        def write_meanwhile() -> Decompressor:
            for row in (next(coming, None), next(coming, None)):
                if row is not None:
                    file.append(row)
            return codec.decompressor()

        with open_packed(path, replace(codec, decompressor=write_meanwhile)) as content:
            seen = content.read().splitlines()
        assert 3 <= len(seen) <= len(ROWS)
        assert seen == ROWS[: len(seen)]


@pytest.mark.parametrize("packing", PACKINGS)
def test_what_a_death_has_left_is_not_packed_by_who_closes_without_recovering(
    tmp_path: Path, packing: str
) -> None:
    path = tmp_path / f"rows.jsonl{packing}"
    content = b"".join(row + b"\n" for row in ROWS)
    tail_of(path).write_bytes(content)
    path.write_bytes(CODECS[packing].compress(content)[:-5])
    append_to(path).close()
    assert lines(path) == ROWS
    with opened(path) as again:
        assert again.recover(tmp_path / "torn") == 0
    assert decompressed(path).splitlines() == ROWS
