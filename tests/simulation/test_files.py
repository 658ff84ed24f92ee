from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.rollouts.output.packed_file import append_to
from simulation.files import FailuresFile, is_row, whole_lines

ROW = b'{"_ng_task_index":0,"_ng_rollout_index":1}'


def test_a_torn_end_is_no_line(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    path.write_bytes(ROW + b"\n" + ROW[:20])
    assert whole_lines(path) == (ROW,)
    assert whole_lines(tmp_path / "missing.jsonl") == ()


@pytest.mark.parametrize("ending", [".jsonl.gz", ".jsonl.zst"])
def test_a_compressed_file_is_read_while_it_is_written_and_afterwards(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out{ending}"
    file = append_to(path)
    file.append(ROW)
    assert whole_lines(path) == (ROW,)
    file.close()
    assert whole_lines(path) == (ROW,)
    path.write_bytes(path.read_bytes()[:-3])
    (line,) = whole_lines(path)
    assert b"is damaged" in line
    assert not is_row(line)


@pytest.mark.parametrize("line", [b"", b"{}", b"[1]", ROW[:20], ROW[:20] + ROW, b'{"_ng_task_index":0}'])
def test_a_line_that_is_not_a_row_is_recognized(line: bytes) -> None:
    assert is_row(ROW)
    assert not is_row(line)


def test_failures_are_those_of_the_latest_start(tmp_path: Path) -> None:
    path = tmp_path / "out_failures.jsonl"
    nothing = FailuresFile.look(path)
    path.write_bytes(b"1\n2\n")
    first = FailuresFile.look(path)
    assert first.written_after(nothing) == (b"1", b"2")
    with path.open("ab") as file:
        file.write(b"3\n")
    assert FailuresFile.look(path).written_after(first) == (b"3",)
    path.rename(tmp_path / "out_failures.1.jsonl")
    path.write_bytes(b"4\n")
    assert FailuresFile.look(path).written_after(first) == (b"4",)
