from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.engines.record.files import RecordWriter, read_record
from nemo_gym.failures import EngineError


def test_the_files_of_several_servers_are_merged_in_order(tmp_path: Path) -> None:
    first, second = RecordWriter("policy.0"), RecordWriter("judge/..0")
    for at, writer in enumerate((first, second, first, second)):
        writer.append(tmp_path, {"completed_at": at})
    assert [line["completed_at"] for line in read_record(tmp_path).lines] == [0, 1, 2, 3]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_torn_line_costs_no_other_line(tmp_path: Path) -> None:
    RecordWriter("policy").append(tmp_path, {"completed_at": 1})
    (path,) = tmp_path.iterdir()
    with path.open("ab") as file:
        file.write(b'{"completed_at": 2, "requ')
    RecordWriter("policy").append(tmp_path, {"completed_at": 3})
    record = read_record(tmp_path)
    assert [line["completed_at"] for line in record.lines] == [1, 3]
    assert record.damaged == 1


def test_a_record_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="cannot be recorded"):
        RecordWriter("policy").append(tmp_path / "absent", {"completed_at": 1})
