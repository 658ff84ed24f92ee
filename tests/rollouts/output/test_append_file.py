"""Files that only grow."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output._append_file import AppendFile

ROWS = [b'{"n": 1}', b'{"n": 22, "text": "line\\nbreak"}', b"{}"]


@contextmanager
def opened(path: Path) -> Iterator[AppendFile]:
    file = AppendFile(path)
    try:
        yield file
    finally:
        file.close()


def test_a_line_is_in_the_file_when_append_returns(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with opened(path) as file:
        for count, row in enumerate(ROWS, start=1):
            file.append(row)
            assert path.read_bytes().splitlines() == ROWS[:count]
            assert file.size == path.stat().st_size


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with opened(path), pytest.raises(ConfigError, match="another process is writing"):
        AppendFile(path)
    with opened(path):
        pass


@pytest.mark.parametrize(
    "change", ["was deleted", "was replaced", "was truncated from 9 to 4 bytes", "was written to"]
)
def test_a_change_by_another_program_is_refused_and_nothing_is_written(tmp_path: Path, change: str) -> None:
    path = tmp_path / "rows.jsonl"
    with opened(path) as file:
        file.append(b"12345678")
        file.refuse_changes()
        if change in ("was deleted", "was replaced"):
            content = path.read_bytes()
            path.rename(tmp_path / "other")
            if change == "was replaced":
                path.write_bytes(content)
        elif change == "was written to":
            with path.open("ab") as other:
                other.write(b"{}")
        else:
            os.truncate(path, 4)
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(ConfigError, match=change) as caught:
            file.append(b"{}")
        assert caught.value.failure.code == "output_changed"
        assert (path.read_bytes() if path.exists() else None) == before


def test_a_replaced_content_is_appended_to_and_stays_locked(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with opened(path) as file:
        file.append(b"{}")
        file.replace([b"[1]\n", b"[2]\n"])
        with pytest.raises(ConfigError, match="another process"):
            AppendFile(path)
        file.append(b"[3]")
    assert path.read_bytes() == b"[1]\n[2]\n[3]\n"


@given(cut=st.integers(min_value=0))
def test_a_file_cut_anywhere_keeps_its_whole_rows_and_its_torn_end_is_kept_apart(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    whole = b"".join(row + b"\n" for row in ROWS)
    cut %= len(whole) + 1
    folder = tmp_path_factory.mktemp("cut")
    path, torn = folder / "rows.jsonl", folder / "torn.jsonl"
    path.write_bytes(whole[:cut])
    with opened(path) as file:
        file.recover(torn)
        file.append(b'{"after": true}')
    lines = path.read_bytes().splitlines()
    kept = len(lines) - 1
    assert lines == [*ROWS[:kept], b'{"after": true}']
    lost = torn.read_bytes() if torn.exists() else b""
    assert b"".join(row + b"\n" for row in ROWS[:kept]) + lost in (whole[:cut], whole[:cut] + b"\n")
    assert not lost.startswith(b"{") or lost.strip() not in ROWS


@pytest.mark.parametrize("end", [b"\0" * 5000, b'{"half": \n', b"\xff\n", b'"text"\n'])
def test_an_end_that_is_no_row_is_cut_off(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(ROWS[0] + b"\n" + end)
    with opened(path) as file:
        assert file.recover(tmp_path / "torn") == len(end)
        assert file.size == len(ROWS[0]) + 1
    assert path.read_bytes() == ROWS[0] + b"\n"
    assert (tmp_path / "torn").read_bytes() == end


def test_a_last_row_longer_than_a_block_is_found(tmp_path: Path) -> None:
    path, long = tmp_path / "rows.jsonl", b'{"text": "%b"}' % (b"x" * 300_000)
    path.write_bytes(ROWS[0] + b"\n" + long + b"\n")
    with opened(path) as file:
        assert file.last_line() == long + b"\n"
        assert file.recover(tmp_path / "torn") == 0


def test_a_line_that_the_disk_takes_half_of_is_taken_back(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the full disk."""
    path = tmp_path / "rows.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with opened(path) as file:
        file.append(ROWS[0])
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            with pytest.raises(ConfigError, match="all earlier rows are safe"):
                file.append(b'{"text": "%b"}' % (b"x" * 500))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        file.append(ROWS[1])
    assert path.read_bytes().splitlines() == ROWS[:2]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=os.fspath(tmp_path)):
        AppendFile(tmp_path / "missing" / "rows.jsonl")
