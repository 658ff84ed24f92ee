from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nemo_gym import cli
from tests.rollouts.lookback.many_runs import store_models
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
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("out_report.html: 1 of 1 rollouts and 0 of 0 failed attempts of out.jsonl.")
    assert second.startswith("page.html: 1 of 1 rollouts")
    assert Path("page.html").read_bytes() == Path("out_report.html").read_bytes()
    for arguments in (("gone.jsonl",), ("out.jsonl", "out.jsonl"), ("out.jsonl", "-o", "out.jsonl")):
        assert run(*arguments, monkeypatch=monkeypatch) == 2


def test_a_report_of_several_runs_has_their_table_and_their_ranking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store_models(tmp_path, {"small": 0.3, "large": 0.9}, tasks=6, repeats=2)
    assert run("small.jsonl", "large.jsonl", "-o", "page.html", monkeypatch=monkeypatch) == 0
    page = Path("page.html").read_text()
    (data,) = re.findall(r'<script type="application/json" id="run">(.*?)</script>', page, re.DOTALL)
    answers = json.loads(data)["answers"]
    kinds = {path.split("?")[0] for path in answers if "?" in path and not path.startswith("runs/")}
    assert kinds == {"table", "rank", "compare"}


def test_a_report_of_a_folder_has_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "below/two"):
        store(tmp_path / f"results/{name}.jsonl", [scored_row(0)])
    assert run("results/", monkeypatch=monkeypatch) == 0
    assert capsys.readouterr().out.startswith("results/results_report.html: 2 of 2 rollouts")
    (tmp_path / "empty").mkdir()
    assert run("empty", monkeypatch=monkeypatch) == 2
    assert "there is no run at empty\n-> Name a file of scored rows, or a folder" in capsys.readouterr().err


def test_a_run_that_was_killed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = store(tmp_path / "out.jsonl", [scored_row(0)])
    (tmp_path / "out_run.json").write_text(
        '{"schema_version": 1, "identity": {}, "starts": [{"planned": 7}]}'
    )
    assert run(str(rows), monkeypatch=monkeypatch) == 0
    assert "note: out.jsonl: 1 of 7 planned rollouts; the run has not ended" in capsys.readouterr().out
    assert (
        "out.jsonl: 1 of 7 planned rollouts; the run has not ended"
        in rows.with_name("out_report.html").read_text()
    )
