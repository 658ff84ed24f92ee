from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nemo_gym.serving.durable.lines import RecordFile


def test_lines_are_appended_for_their_owner_only_and_a_torn_one_is_ended(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "0.0.a0", "tools/../x.0", ".tools.jsonl")
    file.append({"n": 1})
    assert file.path == tmp_path / "0.0.a0" / "tools_.._x.0.tools.jsonl"
    assert file.path.stat().st_mode & 0o077 == 0
    file.close()
    with file.path.open("ab") as torn:
        torn.write(b'{"n": 2')
    restarted = RecordFile(file.path.parent, "tools/../x.0", ".tools.jsonl")
    for n in (3, 4):
        restarted.append({"n": n})
        restarted.close()
    restarted.flush()
    assert file.path.read_bytes() == b'\n{"n":1}\n{"n": 2\n{"n":3}\n{"n":4}\n'


def test_a_new_file_loses_what_an_earlier_owner_has_written(tmp_path: Path) -> None:
    folder = tmp_path / "0.0.a0"
    RecordFile(folder, "policy.0", ".calls.jsonl").append({"n": 1})
    for n in (2, 3):
        file = RecordFile(folder, "policy.0", ".calls.jsonl", is_new=n == 2)
        file.append({"n": n})
        file.close()
        file.append({"n": n})
    assert file.path.read_bytes().split() == [b'{"n":2}', b'{"n":2}', b'{"n":3}', b'{"n":3}']


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        RecordFile(tmp_path / "file", "tools.0", ".tools.jsonl").append({})


def test_a_deleted_file_does_not_come_back(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "0.0.a0", "tools.0", ".tools.jsonl")
    file.append({"n": 1})
    file.close()
    shutil.rmtree(file.path.parent)
    with pytest.raises(FileNotFoundError):
        file.append({"n": 2})
    assert not file.path.parent.exists()
