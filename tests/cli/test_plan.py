"""Plans on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli import plan
from tests.rollouts.lookback.many_runs import store_models


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        plan.main(list(arguments))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_plan_is_told_in_words_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = store_models(tmp_path, {"small": 0.5})
    assert run(f"+run={path}", "+repeats=4", "+difference=0.05") == 0
    assert "must differ by" in capsys.readouterr().out
    assert run("+tasks=100", "+json=true") == 0
    assert json.loads(capsys.readouterr().out)["tasks"] == 100


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "needs the number of tasks"),
        (("+tasks=100", "+difference=2"), "difference"),
        (("+tasks=0",), "tasks"),
        (("+run=absent.jsonl",), "there is no run"),
    ],
)
def test_mistakes(arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err
