"""Compressed files and their journals, as readers meet them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nemo_gym.rollouts.output._packed_file import append_to
from nemo_gym.rollouts.plan.compression import (
    CODECS,
    DAMAGE,
    build_journal_path,
    find_codec,
    holds_text,
    open_content,
)
from nemo_gym.rollouts.plan.dataset import opened_plain
from tests.rollouts.output.packed import CONTENT, PACKINGS, ROWS


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.jsonl.gz", "rows.jsonl.zst"])
def test_any_form_can_be_read_anywhere_while_it_is_written_and_afterwards(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    file = append_to(path)
    for row in ROWS:
        file.append(row)
    assert_readable_anywhere(path)
    file.close()
    assert_readable_anywhere(path)


def assert_readable_anywhere(path: Path) -> None:
    with opened_plain(path) as plain:
        assert os.pread(plain.fileno(), 30, 100) == CONTENT[100:130]
        assert plain.read() == CONTENT


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_reader_meets_every_row_once_while_the_file_is_closed_under_it(
    tmp_path: Path, packing: str
) -> None:
    path = tmp_path / f"rows.jsonl{packing}"
    file = append_to(path)
    for row in ROWS:
        file.append(row)
    with open_content(path) as content:
        file.close()
        assert content.read() == CONTENT
    with open_content(path) as content:
        again = append_to(path)
        assert content.read() == CONTENT
    again.close()


@pytest.mark.parametrize("packing", PACKINGS)
def test_frames_are_read_as_one_file_and_a_truncated_end_is_an_error(tmp_path: Path, packing: str) -> None:
    path = tmp_path / f"rows.jsonl{packing}"
    codec = CODECS[packing]
    with path.open("wb") as file:
        for part in (CONTENT[:50], CONTENT[50:]):
            with codec.writer(file) as packed:
                packed.write(part)
    with open_content(path) as content:
        assert content.read() == CONTENT
    os.truncate(path, path.stat().st_size - 3)
    with open_content(path) as content, pytest.raises(DAMAGE):
        content.read()


def test_the_journal_is_read_unless_it_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    assert not holds_text(path)
    build_journal_path(path).write_bytes(CONTENT)
    assert holds_text(path)
    with open_content(path) as content:
        assert content.read() == CONTENT
    assert find_codec(tmp_path / "rows.jsonl") is None
