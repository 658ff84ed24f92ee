"""The twenty likeliest mistakes with aims, plans and rankings: each is refused before the start, with what to do."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.rollouts.doubles import write_dataset
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import scored_row, store

COLLECT = "collect_rollouts"
AIM = "+until=5%"
MISTAKES = [
    (COLLECT, ["+until=0"], "asks for certainty, which no number of rollouts gives"),
    (COLLECT, ["+until=-1%"], "Ask for a width above 0"),
    (COLLECT, ["+until=1"], "±1 is one whole reward, ±1% is a hundredth of the range"),
    (COLLECT, ["+until=50%"], "as wide as the rewards' range"),
    (COLLECT, ["+until=accurate"], "Write --until ±1%"),
    (COLLECT, ["+until='a is better than b'"], "is not understood"),
    (COLLECT, ["+until='a differs'"], "does not name two agents"),
    (COLLECT, ["+until='a differs from a'"], "Name two agents that differ, such as in their model servers"),
    (COLLECT, [AIM, "+reward_range=[1,0]"], "is not a range"),
    (COLLECT, [AIM, "+reward_range=[0,inf]"], "Rewards without bounds have no interval"),
    (COLLECT, ["+generalize=true"], "the run has no +until"),
    (COLLECT, ["+max_rollouts=100"], "the run has no +until"),
    (COLLECT, ["+max_total_tokens=100"], "the run has no +until"),
    (COLLECT, [AIM, "+max_total_tokens=0"], "greater than or equal to 1"),
    (COLLECT, [AIM, "+generalize=true"], "add tasks, or leave +generalize=true out"),
    (COLLECT, [AIM, "+max_rollouts=20"], "even if all rewards agree"),
    (COLLECT, [AIM, "+interleave_repeats=true"], "so it excludes +interleave_repeats=true"),
    (COLLECT, [AIM, "+num_repeats={small: 4}"], "so it excludes +num_repeats by agent"),
    (COLLECT, [AIM, "+num_repeats=4"], "so it excludes +num_repeats=4 (gym: -n)"),
    ("plan", [], "a plan needs the number of tasks"),
    ("plan", ["+run=once.jsonl"], "Plan from a run with two repeats or more"),
    ("rank", ["+runs=small.jsonl"], "Name the runs of two models or more"),
    ("rank", ["+runs=[small.jsonl,other.jsonl]"], "no task has a score in all of"),
    ("tasks", ["+runs=[wide.jsonl]"], "outside 0 to 1"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    write_dataset(tmp_path / "rows.jsonl", 8)
    store_models(tmp_path, {"small": 0.5})
    store_models(tmp_path, {"once": 0.5}, repeats=1)
    store(tmp_path / "other.jsonl", [scored_row(900)])
    store(tmp_path / "wide.jsonl", [scored_row(0, reward=7.0)])


@pytest.mark.parametrize(("command", "arguments", "message"), MISTAKES)
def test_mistakes(
    command: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["+input_jsonl_fpath=rows.jsonl", "+output_jsonl_fpath=out/rows.jsonl", "+agent_name=small"]
    with pytest.raises(SystemExit) as ended:
        import_module(f"nemo_gym.cli.{command}").main([*(given if command == COLLECT else []), *arguments])
    printed = capsys.readouterr().err
    assert ended.value.code == 2, printed
    assert message in printed
    assert not Path("out").exists()
