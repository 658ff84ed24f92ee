"""Two runs compared on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.cli import compare
from tests.rollouts.lookback.many_runs import store_models
from tests.rollouts.stored_runs import failure_row, rows_of_agents, scored_row, store


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    store(tmp_path / "a.jsonl", [scored_row(0), scored_row(1, reward=0.0), scored_row(2), scored_row(3)])
    after = [scored_row(0, reward=0.0), scored_row(1), scored_row(2, reward=0.5)]
    store(tmp_path / "b.jsonl", after, [failure_row(3), failure_row(4)])


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        compare.main(["+runs=[a.jsonl,b.jsonl]", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_table_has_the_difference_and_the_changed_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[:6] == [
        "before      0.6667  a.jsonl",
        "after       0.5  b.jsonl",
        "difference  -0.1667  [-2.752, +2.419] 95 %",
        "tasks       3 paired: 2 worse, 1 better, 0 equal",
        "no score    1 tasks in one of the runs: 3",
        "only after  1 tasks: 4",
    ]
    rows = [line.split() for line in printed[6:] if line.strip() and line.strip()[0].isdigit()]
    assert [row[:4] for row in rows] == [
        ["0", "1", "0", "-1"],
        ["1", "0", "1", "+1"],
        ["2", "1", "0.5", "-0.5"],
    ]
    assert max(map(len, printed)) <= 80


def test_markdown_and_json_say_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("+markdown=true", "+changes=1") == 0
    printed = capsys.readouterr().out.splitlines()
    assert "- **difference:** -0.1667  [-2.752, +2.419] 95 %" in printed
    assert printed[-1] == "| 0 | 1 | 0 | -1 | question 0 |"
    assert run("+json=true") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["difference"] == pytest.approx(-1 / 6)
    assert [change["task_before"] for change in found["changed"]] == [0, 1, 2]
    assert (found["without_score"], found["only_after"], found["only_before"]) == ([[3, 3]], [4], [])


@pytest.mark.parametrize(("bound", "code"), [("-0.2", 0), ("-0.1", 1)])
def test_a_difference_below_the_bound_fails(bound: str, code: int) -> None:
    assert run(f"+fail_below={bound}") == code


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["+runs=[a.jsonl]"], "runs"),
        (["+runs=[a.jsonl,gone.jsonl]"], "gone.jsonl"),
        (["+runs=[a.jsonl,./a.jsonl]"], "a.jsonl is named twice"),
        (["+score=points"], "no task has the score 'points'"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        compare.main(["+runs=[a.jsonl,b.jsonl]", *arguments] if "+score" in arguments[0] else arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_several_runs_are_a_table_of_environments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = store_models(tmp_path, {"small": 0.1, "middle": 0.5, "large": 0.9}, tasks=30, repeats=2)
    keys = f"+runs=[{','.join(map(str, paths))}]"

    def compared(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            compare.main([keys, *arguments])
        return int(ended.value.code or 0)

    assert compared() == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    for label in ("org/small", "org/middle", "org/large"):
        assert label in printed
    assert "policy_model.responses_api_models.vllm_model.model:" in printed
    assert "org/small | org/middle | org/large" in printed
    assert compared("+json=true") == 0
    found = json.loads(capsys.readouterr().out)
    assert [(pair["before"], pair["after"]) for pair in found["pairs"]] == [
        ("org/small", "org/middle"),
        ("org/small", "org/large"),
        ("org/middle", "org/large"),
    ]
    assert compared("+fail_below=0.9") == 1, "no run is that much better than the first"
    assert compared("+fail_below=-0.1") == 0
    capsys.readouterr()
    assert compared("+markdown=true") == 0
    assert "### quiz\n\n| run | mean |" in capsys.readouterr().out


def test_a_partial_reward_is_never_called_a_pass(capsys: pytest.CaptureFixture[str]) -> None:
    for name in "cde":
        store(Path(f"{name}.jsonl"), [scored_row(0, repeat, 0.0665) for repeat in range(2)])
    with pytest.raises(SystemExit):
        compare.main(["+runs=[c.jsonl,d.jsonl,e.jsonl]"])
    printed = capsys.readouterr().out
    assert "best@2" in printed
    assert "pass@" not in printed


def test_a_value_without_some_tasks_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    whole = [scored_row(task, repeat) for task in range(3) for repeat in range(2)]
    for name, rows in {"whole": whole, "short": whole[:-1], "other": whole}.items():
        store(Path(f"{name}.jsonl"), rows)
    with pytest.raises(SystemExit):
        compare.main(["+runs=[whole.jsonl,short.jsonl,other.jsonl]", "+markdown=true"])
    printed = capsys.readouterr().out
    assert printed.count("100.0 %*") == 1
    assert "* without the tasks that have fewer than k rewards" in printed
    with pytest.raises(SystemExit):
        compare.main(["+runs=[whole.jsonl,other.jsonl]", "+markdown=true"])
    assert "*" not in capsys.readouterr().out.replace("**", "")


def compared(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        compare.main([*arguments])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("bound", ["0", "-0.1", "0.1"])
def test_the_bound_decides_on_the_printed_difference(capsys: pytest.CaptureFixture[str], bound: str) -> None:
    store(Path("c.jsonl"), [scored_row(0, reward=0.8), scored_row(1, reward=0.1), scored_row(2, reward=0.6)])
    rise = float(bound)
    rewards = [round(each + rise, 1) for each in (0.6, 0.8, 0.1)]
    for name in "de":
        store(Path(f"{name}.jsonl"), [scored_row(task, reward=reward) for task, reward in enumerate(rewards)])
    assert compared("+runs=[c.jsonl,d.jsonl]", f"+fail_below={bound}") == 0
    assert compared("+runs=[c.jsonl,d.jsonl,e.jsonl]", f"+fail_below={bound}") == 0
    capsys.readouterr()
    assert compared("+runs=[c.jsonl,d.jsonl]", f"+fail_below={rise + 1e-9}") == 1
    assert f"the difference, {rise:+g}, is below" in capsys.readouterr().err


def test_a_run_of_two_agents_is_compared_over_the_agent_of_the_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    own = {"a": [[1.0, 0.0], [0.0, 0.0]], "b": [[1.0, 1.0], [1.0, 1.0]]}
    for name in ("both", "again"):
        store(Path(f"{name}.jsonl"), rows_of_agents(own))
    store(Path("alone.jsonl"), rows_of_agents({"a": [[1.0, 0.0], [1.0, 0.0]]}))
    assert compared("+runs=[both.jsonl,alone.jsonl]", "+fail_below=0") == 0
    printed = capsys.readouterr().out
    assert "before      0.25  both.jsonl" in printed
    assert "difference  +0.25 " in printed
    assert "agents      over a, in both runs; not b" in printed
    assert compared("+runs=[both.jsonl,again.jsonl]", "+json=true") == 0
    store(Path("other.jsonl"), rows_of_agents({"c": [[1.0], [1.0]]}))
    capsys.readouterr()
    assert compared("+runs=[both.jsonl,other.jsonl]") == 2
    assert "several agents (a, b) attempt a task" in capsys.readouterr().err


def test_the_changed_tasks_of_several_agents_name_the_agent(capsys: pytest.CaptureFixture[str]) -> None:
    store(Path("c.jsonl"), rows_of_agents({"a": [[0.0]], "b": [[1.0]]}))
    store(Path("d.jsonl"), rows_of_agents({"a": [[1.0]], "b": [[0.5]]}))
    assert compared("+runs=[c.jsonl,d.jsonl]", "+markdown=true") == 0
    printed = capsys.readouterr().out
    assert "| 0 | 0 | 1 | +1 | a | question 0 |" in printed
    assert "| 0 | 1 | 0.5 | -0.5 | b | question 0 |" in printed


def test_a_bound_needs_what_every_run_has_in_common_with_the_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    store(Path("other.jsonl"), [scored_row(0, agent="other")])
    assert compared("+runs=[a.jsonl,b.jsonl,other.jsonl]", "+fail_below=-1") == 2
    assert "in both a and other" in capsys.readouterr().err
    assert compared("+runs=[a.jsonl,b.jsonl,other.jsonl]") == 0
