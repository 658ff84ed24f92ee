from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.atomic import replacing, write_atomically
from nemo_gym.rollouts.plan.compression import CODECS, build_journal_path
from nemo_gym.rollouts.plan.dataset import read_lines


def test_a_file_appears_whole_with_the_folders_above_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    with replacing(path) as file:
        file.write(b"one")
        assert not path.exists()
    assert path.read_bytes() == b"one"
    assert list(path.parent.iterdir()) == [path]


def test_what_breaks_off_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"new" * (1 // 0))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_is_the_users_to_correct(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot write"), replacing(tmp_path / "file" / "below"):
        pass


@pytest.mark.parametrize("packing", sorted(CODECS))
def test_rows_of_a_writer_that_was_killed_don_t_come_back_behind_the_new_ones(
    tmp_path: Path, packing: str
) -> None:
    path = tmp_path / f"rows.jsonl{packing}"
    path.write_bytes(b"")
    build_journal_path(path).write_bytes(b'{"old": 1}\n')
    with replacing(path) as file:
        file.write(b'{"new": 1}\n')
    assert [line.content for line in read_lines(path)] == [b'{"new": 1}\n']


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    write_atomically(path, b"one")
    write_atomically(path, (piece for piece in (b"tw", b"", b"o")))
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]
