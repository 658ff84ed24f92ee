from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.audit.journal import AuditJournal
from nemo_gym.audit.outcomes import Conclusion, ProbeOutcome, Right
from nemo_gym.failures import ConfigError

RIGHT = ProbeOutcome("b", "gold", Right.ACCEPT, Conclusion.RIGHT, 1.0)


def write(file: Path, *tasks: str) -> None:
    journal = AuditJournal(file, {"seed": 1}, resume=file.exists())
    for task in tasks:
        journal.add(task, [RIGHT])
    journal.close()


def test_a_resumed_audit_has_what_was_written(tmp_path: Path) -> None:
    write(tmp_path / "o.jsonl", "b", "a")
    journal = AuditJournal(tmp_path / "o.jsonl", {"seed": 1}, resume=True)
    assert set(journal.done) == {"a", "b"}
    assert list(journal.list_outcomes()) == [RIGHT, RIGHT]
    journal.close()


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    file = tmp_path / "o.jsonl"
    write(file, "a", "b")
    file.write_bytes(file.read_bytes()[:-9])
    write(file, "c")
    assert len(file.read_bytes().splitlines()) == 3
    journal = AuditJournal(file, {"seed": 1}, resume=True)
    assert set(journal.done) == {"a", "c"}
    journal.close()


def test_an_earlier_audit_is_neither_overwritten_nor_mixed(tmp_path: Path) -> None:
    write(tmp_path / "o.jsonl", "a")
    with pytest.raises(ConfigError, match="has an earlier audit"):
        AuditJournal(tmp_path / "o.jsonl", {"seed": 1}, resume=False)
    with pytest.raises(ConfigError, match="another seed"):
        AuditJournal(tmp_path / "o.jsonl", {"seed": 2}, resume=True)
