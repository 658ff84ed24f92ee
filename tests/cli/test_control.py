"""The twenty likeliest mistakes with `gym ctl`, budgets and prices: each is refused, with what to do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from nemo_gym.cli import main
from nemo_gym.rollouts.control.endpoint import serve_control
from tests.rollouts.control.controlled import build_controlled
from tests.rollouts.doubles import Agents, write_dataset

CTL = [
    ("pause nothing.jsonl", "there is no run nothing.jsonl"),
    ("pause ended.jsonl", "no run writes ended.jsonl now"),
    ("pause evaluation", "no run named 'evaluation' goes on"),
    ("pause", "several runs go on here: results/one.jsonl, results/two.jsonl"),
    ("stop results/one.jsonl", "There is no verb 'stop'"),
    ("pause results/one.jsonl results/two.jsonl", "name one run"),
    ("cancel results/one.jsonl", "`cancel` needs the rollouts to cancel"),
    ("cancel results/one.jsonl --rollout 7/0", "no rollout 7/0 is in flight"),
    ("cancel results/one.jsonl --rollout seven", "'seven' is no rollout; write task/repeat"),
    ("requeue results/one.jsonl --class timeout", "no rollout of class timeout has failed"),
    ("requeue results/one.jsonl --rollout 1/0", "no rollout 1/0 has failed"),
    ("set results/one.jsonl", "`set` needs a value"),
    ("set concurrency 8", "Did you mean --concurrency 8?"),
    ("set results/one.jsonl --concurrency 0", "num_samples_in_parallel"),
    ("set results/one.jsonl --concurrency many", "num_samples_in_parallel"),
    ("set results/one.jsonl --timeout soon", "'soon' is not a number"),
    ("pause results/one.jsonl --concurrency 4", "No such option"),
]
BUDGETS = [
    ("+budget.run.tokens=0", "budget.run.tokens"),
    ("+budget.run.token=100", "budget.run.token"),
    ("+budget.runs.tokens=100", "budget.runs"),
    ("+budget.run.cost=free", "budget.run.cost"),
    ("+prices={mock: 3}", "prices.mock"),
    ("+prices={mock: {input: 1}}", "output"),
    ("+prices={mock: {input: -1, output: 4}}", "input"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "1000")
    (tmp_path / "ended.jsonl").write_text("{}\n")
    write_dataset(tmp_path / "rows.jsonl", 2)


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[None]:
    """Two runs that go on in this folder, which answer from a thread."""
    (tmp_path / "results").mkdir()
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stack = AsyncExitStack()

    async def begin() -> None:
        for name in ("one", "two"):
            run = build_controlled(Agents(), 2)
            run.control.name = name
            run.counters.outages["policy_model"] = {"http://e": f"{name}: http://e refuses the connection"}
            await stack.enter_async_context(
                serve_control(run.control, tmp_path / "results" / f"{name}_control.json")
            )

    asyncio.run_coroutine_threadsafe(begin(), loop).result(30)
    yield
    asyncio.run_coroutine_threadsafe(stack.aclose(), loop).result(30)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def refuse(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    assert ended.value.code == 2, printed
    return printed.err


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(("line", "message"), CTL)
def test_mistakes_with_control(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refuse(["ctl", *line.split()], capsys)


@pytest.mark.parametrize(("override", "message"), BUDGETS)
def test_mistakes_with_budgets(override: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = [
        "+input_jsonl_fpath=rows.jsonl",
        "+output_jsonl_fpath=out/rows.jsonl",
        "+agent_name=simple_agent",
    ]
    printed = refuse(["collect_rollouts", *given, override], capsys)
    assert message in printed
    assert not Path("out").exists()


def test_no_run_at_all_says_how_to_name_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert "gym ctl pause FILE" in refuse(["ctl", "pause"], capsys)


@pytest.mark.usefixtures("runs")
def test_status_lists_the_runs_with_the_next_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["ctl", "status"])
    printed = capsys.readouterr().out
    assert ended.value.code == 0
    assert "one: running, 0/2 rollouts" in printed
    assert "two: running, 0/2 rollouts" in printed
    assert "  waiting: `policy_model`: two: http://e refuses the connection\n" in printed
    assert "next: gym ctl pause, or set, drain, cancel, requeue (each with --dry-run)" in printed
