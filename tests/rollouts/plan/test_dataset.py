"""Reading datasets line by line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import locate, read_lines

CONTENT = b'{"a": 1}\n\n{"b": 2}\r\n   \n{"c": 3}'


def write(path: Path, content: bytes) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    elif path.suffix == ".zst":
        path.write_bytes(zstandard.compress(content))
    else:
        path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst"])
def test_lines_are_numbered_as_in_an_editor_and_blank_ones_left_out(tmp_path: Path, name: str) -> None:
    lines = list(read_lines(write(tmp_path / name, CONTENT)))
    assert [(line.number, line.content.strip()) for line in lines] == [
        (1, b'{"a": 1}'),
        (3, b'{"b": 2}'),
        (5, b'{"c": 3}'),
    ]


def test_a_byte_order_mark_is_not_part_of_the_first_row(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", b"\xef\xbb\xbf" + CONTENT)
    assert next(read_lines(path)).content == b'{"a": 1}\n'


@pytest.mark.parametrize("name", ["rows.jsonl.gz", "rows.jsonl.zst"])
def test_a_compressed_file_that_was_cut_off_is_named(tmp_path: Path, name: str) -> None:
    rows = b"".join(b'{"number": %d, "noise": %d}\n' % (number, hash((number,))) for number in range(5000))
    path = write(tmp_path / name, rows)
    path.write_bytes(path.read_bytes()[:-50])
    with pytest.raises(ConfigError, match=name):
        list(read_lines(path))


def test_several_zstandard_frames_are_one_dataset(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(zstandard.compress(b"{}\n") + zstandard.compress(b"[]\n"))
    assert [line.content for line in read_lines(path)] == [b"{}\n", b"[]\n"]


def test_a_dataset_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        locate(tmp_path / "rows.jsonl")
    with pytest.raises(ConfigError, match="is a folder"):
        locate(tmp_path)
