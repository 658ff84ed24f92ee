"""Environments run from Python: with a function as the model, and with an engine behind a URL."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import nemo_gym
from nemo_gym import PARENT_DIR, evaluate, evaluate_async
from nemo_gym.config.problems import ConfigErrors
from nemo_gym.evaluation.evaluation import Evaluation
from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine import EngineOptions, MockEngine
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.run.counters import RunCounters
from nemo_gym.rollouts.run.summary import CollectSummary
from nemo_gym.rows.forms import ScoredRow
from nemo_gym.testing.serving import LoopbackServers
from tests.rollouts.stored_runs import scored_row

RIGHT = r"It is \boxed{C}."


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "problems"),
    [
        (
            {"repeats": 0, "limit": -1},
            ["limit must be greater than or equal to 1, not -1", "repeats must be"],
        ),
        ({"concurrency": 0}, ["concurrency must be greater than or equal to 1 or 'auto', not 0"]),
        ({"repeats": "4"}, ["repeats must be a whole number, not '4'"]),
        ({"tasks": []}, ["`tasks` has no rows"]),
        ({"agent": "nope"}, ["Datasets are declared for mcqa_simple_agent"]),
        ({"overrides": ["mcqa_simple_agent.steps=1"]}, ["responses_api_agents.simple_agent.steps=..."]),
    ],
)
def test_wrong_arguments_raise_before_anything_runs(arguments: dict[str, Any], problems: list[str]) -> None:
    def model(_: dict[str, Any]) -> str:
        raise AssertionError("the evaluation has begun")

    with pytest.raises(ConfigError) as caught:
        evaluate("mcqa", model=model, progress=False, **arguments)
    assert [problem for problem in problems if problem not in str(caught.value)] == []


def test_a_function_is_evaluated(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[dict[str, Any]] = []

    def model(request: dict[str, Any]) -> str:
        seen.append(request)
        return RIGHT

    result = evaluate("mcqa", model=model, repeats=2, limit=3)
    assert len(seen) == 6
    assert "Which planet" in seen[0]["messages"][-1]["content"] + seen[-1]["messages"][-1]["content"] + str(
        seen
    )
    assert [(row["_ng_task_index"], row["_ng_rollout_index"]) for row in result.rollouts] == [
        (task, repeat) for task in range(3) for repeat in range(2)
    ]
    assert result.mean_reward == pytest.approx(1 / 3)
    assert result.metrics["mcqa_simple_agent"]["mean/reward"] == pytest.approx(1 / 3)
    assert repr(result) == "Evaluation(6 rollouts, 0 without a score, mean reward 0.3333)"
    assert "0/6 rollouts" in capsys.readouterr().err
    assert list(Path.cwd().iterdir()) == []


async def test_a_coroutine_function_calls_tools_in_a_running_loop() -> None:
    async def model(request: dict[str, Any]) -> dict[str, Any]:
        if request["messages"][-1]["role"] == "tool":
            return {"content": request["messages"][-1]["content"]}
        name = request["tools"][0]["function"]["name"]
        return {"tool_calls": [{"name": name, "arguments": {"city": "Rome"}}]}

    result = await evaluate_async("example_single_tool_call", model=model, limit=1, progress=False)
    assert result.mean_reward == 1.0
    kinds = [item["type"] for item in result.rollouts[0]["response"]["output"]]
    assert kinds == ["function_call", "function_call_output", "message"]


async def test_the_blocking_form_works_inside_a_running_loop() -> None:
    result = evaluate("mcqa", model=lambda request: RIGHT, limit=1, progress=False)
    assert result.summary.exit_code == 0


def test_rows_of_ones_own_are_evaluated_and_kept(tmp_path: Path) -> None:
    row = {
        "responses_create_params": {"input": [{"role": "user", "content": "A or B?"}]},
        "options": [{"A": "one"}, {"B": "two"}],
        "expected_answer": "B",
    }
    output = tmp_path / "kept" / "out.jsonl"
    with LoopbackServers() as servers:
        engine = servers.enter(MockEngine(EngineOptions(policy="echo")))
        result = evaluate(
            "mcqa", model=engine.base_url, model_name="mock", tasks=[row], output=output, progress=False
        )
    assert (len(result.rollouts), result.mean_reward) == (1, 0.0)
    assert len(output.read_bytes().splitlines()) == 1


def test_an_error_of_the_function_is_a_failure_with_its_text() -> None:
    def model(request: dict[str, Any]) -> str:
        raise ValueError("no weights")

    result = evaluate("mcqa", model=model, limit=1, progress=False)
    assert (result.rollouts, result.mean_reward) == ([], None)
    assert "ValueError: no weights" in result.failures[0]["_ng_failure"]["message"]
    assert repr(result) == "Evaluation(0 rollouts, 1 without a score, mean reward none)"


def test_wrong_arguments_are_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigErrors, match="no environment or benchmark 'mcqb'"):
        evaluate("mcqb", model=lambda request: "")
    with pytest.raises(ConfigErrors, match="policy_model_name"):
        evaluate("mcqa", model="http://127.0.0.1:1/v1")
    with pytest.raises(ConfigError, match="no dataset of type train"):
        evaluate("mcqa", model=lambda request: "", split="train", progress=False)


def test_rollouts_are_a_table() -> None:
    pandas = pytest.importorskip("pandas")
    result = evaluate("mcqa", model=lambda request: RIGHT, limit=2, progress=False)
    table = result.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table["task"]) == [0, 1]
    assert list(table["answer"]) == [RIGHT, RIGHT]
    assert {"agent", "reward", "outcome", "seconds", "output_tokens"} <= set(table.columns)


def test_unknown_names_of_the_package_are_errors() -> None:
    with pytest.raises(AttributeError, match="evaluations"):
        nemo_gym.evaluations  # noqa: B018


def cells_of(notebook: Path) -> list[str]:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


async def test_the_notebook_runs_as_in_a_running_loop(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells_of(PARENT_DIR / "examples" / "evaluate.ipynb")):
        code = compile(cell, f"cell {number}", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(code, names)
        if inspect.isawaitable(value):
            await value
    assert names["result"].mean_reward == pytest.approx(1 / 6)
    assert names["better"].mean_reward > names["result"].mean_reward
    assert "0.1667" in capsys.readouterr().out


def test_the_mean_reward_of_several_agents_is_the_mean_of_theirs(tmp_path: Path) -> None:
    rows = [
        scored_row(0, 0, 1.0, agent="a"),
        scored_row(0, 1, 0.0, agent="b"),
        scored_row(1, 0, 0.0, agent="b"),
    ]
    summary = CollectSummary(RunFiles.from_output(tmp_path / "out.jsonl"), [], RunCounters(3), 1.0)
    assert Evaluation([*map(ScoredRow, rows)], [], {}, summary).mean_reward == 0.5
