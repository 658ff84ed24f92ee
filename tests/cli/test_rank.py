"""Models ranked on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli import rank
from tests.rollouts.lookback.many_runs import store_models


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    store_models(tmp_path, {"small": 0.3, "large": 0.85})


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        rank.main(["+runs=[small.jsonl,large.jsonl]", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_table_and_a_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("+plot=ranks.svg") == 0
    printed = capsys.readouterr().out
    assert "1 of 1 differences are beyond doubt" in printed
    assert "quiz: org/large is better than org/small by" in printed
    assert max(map(len, printed.splitlines())) <= 110
    assert (tmp_path / "ranks.svg").read_text().startswith("<svg")


def test_a_regression_is_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("+baseline=large.jsonl") == 1
    assert "regression: quiz: org/large is better" in capsys.readouterr().out
    assert run("+baseline=small.jsonl") == 0
    assert "No regression is shown." in capsys.readouterr().out
    assert run("+baseline=none.jsonl") == 2


def test_a_run_that_is_named_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        rank.main(["+runs=[small.jsonl,large.jsonl,small.jsonl]"])
    assert "small.jsonl is named twice" in capsys.readouterr().err


def test_markdown_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("+markdown=true") == 0
    assert "| model | rank | quiz | run |" in capsys.readouterr().out
    assert run("+json=true", "+baseline=large.jsonl", "+adjust=none") == 1
    document = json.loads(capsys.readouterr().out)
    assert [model["label"] for model in document["models"]] == ["org/large", "org/small"]
    assert len(document["regressions"]) == 1
