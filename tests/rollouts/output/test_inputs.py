"""Outputs that are inputs under another name."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.inputs import refuse_inputs, refuse_repeats


def test_a_file_is_recognized_under_every_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rows.jsonl.gz"
    file.touch()
    (tmp_path / "soft").symlink_to(file)
    (tmp_path / "hard").hardlink_to(file)
    (tmp_path / "folder").symlink_to(tmp_path)
    same = [file, Path("rows.jsonl.gz"), Path("./soft"), Path("hard"), Path("folder/rows.jsonl.gz")]
    for output in same:
        for read in same:
            with pytest.raises(ConfigError, match="would overwrite its input") as caught:
                refuse_inputs([tmp_path / "other", output], [read])
            assert caught.value.failure.code == "output_is_input"


def test_a_compressed_file_and_its_journal_are_one(tmp_path: Path) -> None:
    packed, journal = tmp_path / "rows.jsonl.gz", tmp_path / "rows.jsonl.gz.journal"
    journal.touch()
    (tmp_path / "link").symlink_to(journal)
    for read in (journal, packed, tmp_path / "link"):
        with pytest.raises(ConfigError):
            refuse_inputs([packed], [read])


def test_other_files_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").touch()
    refuse_inputs([tmp_path / "rows2.jsonl", tmp_path / "rows.jsonl.gz"], [tmp_path / "rows.jsonl"])


def test_a_file_that_is_named_twice_is_refused_under_every_name(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.touch()
    other.touch()
    refuse_repeats([one, other])
    (tmp_path / "link").symlink_to(one)
    for again in (one, tmp_path / "link", tmp_path / ".." / tmp_path.name / "one.jsonl"):
        with pytest.raises(ConfigError, match="is named twice") as caught:
            refuse_repeats([one, other, again])
        assert caught.value.failure.code == "duplicate_input"
