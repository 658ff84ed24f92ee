from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym import cli
from tests.rollouts.stored_runs import scored_row, store


def run(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr("sys.argv", ["gym", "eval", "report", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


def test_a_report_is_written_beside_the_run_or_as_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    store(tmp_path / "out.jsonl", [scored_row(0)])
    assert run("out.jsonl", monkeypatch=monkeypatch) == 0
    assert run("out.jsonl", "-o", "page.html", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out == "out_report.html\npage.html\n"
    assert Path("page.html").read_bytes() == Path("out_report.html").read_bytes()
    assert run("gone.jsonl", monkeypatch=monkeypatch) == 2


def test_a_run_that_was_killed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = store(tmp_path / "out.jsonl", [scored_row(0)])
    (tmp_path / "out_run.json").write_text(
        '{"schema_version": 1, "identity": {}, "starts": [{"planned": 7}]}'
    )
    assert run(str(rows), monkeypatch=monkeypatch) == 0
    assert "1 of 7 planned rollouts; the run has not ended" in capsys.readouterr().out
