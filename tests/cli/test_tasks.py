"""Tasks that tell models apart, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli import tasks
from tests.rollouts.lookback.many_runs import store_models


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        tasks.main(list(arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_kinds_of_tasks_and_a_smaller_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = store_models(tmp_path, {f"m{number}": 0.1 + 0.2 * number for number in range(5)}, repeats=8)
    runs = f"+runs=[{','.join(map(str, paths))}]"
    assert run(runs, f"+output_jsonl_fpath={tmp_path}/figures.jsonl") == 0
    printed = capsys.readouterr().out
    assert "telling" in printed
    assert "tasks rank the models as all do" in printed
    assert "check the set with runs of other models" in " ".join(printed.split())
    assert len((tmp_path / "figures.jsonl").read_text().splitlines()) == 40
    assert run(runs, "+json=true") == 0
    assert json.loads(capsys.readouterr().out)["smaller_set"]["agreement"] >= 0.9


def test_few_models_say_little(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = store_models(tmp_path, {"a": 0.5, "b": 0.5}, tasks=3, repeats=1)
    assert run(f"+runs=[{','.join(map(str, paths))}]") == 0
    printed = capsys.readouterr().out
    assert "from four models on" in printed


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_tasks_with_one_score_rank_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rate: float
) -> None:
    paths = store_models(tmp_path, {"a": rate, "b": rate, "c": rate}, tasks=6, repeats=2)
    assert run(f"+runs=[{','.join(map(str, paths))}]") == 0
    printed = capsys.readouterr().out
    assert "Each task has the same score of all models, so no set of tasks ranks them." in printed
    assert "rank the models as all do" not in printed
    assert run(f"+runs=[{','.join(map(str, paths))}]", "+json=true") == 0
    assert json.loads(capsys.readouterr().out)["smaller_set"] is None
