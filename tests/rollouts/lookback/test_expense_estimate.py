"""The estimate of what a planned run will spend, and the coverage of its interval."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.metrics import Planned
from nemo_gym.rollouts.lookback.expense_estimate import (
    EnvironmentEstimate,
    ExpensePlan,
    add_totals,
    describe_estimates,
    estimate_expenses,
    find_runs,
    predict_total,
)
from nemo_gym.transport.budget import Price
from tests.rollouts.stored_runs import failure_row, scored_row, store
from tests.samples import IS_WHOLE

PLAYS = 2000 if IS_WHOLE else 300
PRICES = {"policy_model": Price(1.0, 0.1, 4.0), "judge_model": Price(10.0, 10.0, 40.0)}
CONFIG: Mapping[str, Any] = {
    "mcqa_agent": {"responses_api_agents": {"simple_agent": {"resources_server": {"name": "mcqa"}}}},
    "quiz_agent": {"responses_api_agents": {"simple_agent": {"resources_server": {"name": "quiz"}}}},
}


def store_run(
    folder: Path,
    name: str,
    model: str,
    rows: list[Any],
    failures: list[Any] | None = None,
    datasets: Sequence[str] = (),
) -> Path:
    path = store(folder / f"{name}.jsonl", rows, failures)
    servers = {"policy_model": {"responses_api_models": {"vllm_model": {"model": model}}}}
    identity = {"config": {**CONFIG, **servers}, "datasets": [{"sha256": each} for each in datasets]}
    manifest = {"schema_version": 1, "identity": identity, "starts": [{}]}
    path.with_name(f"{name}_run.json").write_text(json.dumps(manifest))
    return path


def spend(task: int, repeat: int = 0, tokens: int = 100, agent: str = "mcqa_agent") -> dict[str, Any]:
    spent = {"policy_model": [1, tokens, 0, 10], "judge_model": [1, 20, 0, 5]}
    return scored_row(task, repeat, agent=agent, _ng_spent=spent, _ng_timing={"total": 2.0})


def plan(
    tasks: int = 4, rollouts: int = 8, model: str = "small", agents: Mapping[str, Planned] | None = None
) -> ExpensePlan:
    planned = agents or {"mcqa_agent": Planned(tasks, rollouts)}
    policies = dict.fromkeys(planned, "policy_model")
    return ExpensePlan(planned, CONFIG, (model,), PRICES, policies)


def estimate(planned: ExpensePlan, *runs: Path) -> EnvironmentEstimate:
    (found,) = estimate_expenses(planned, runs)
    return found


@pytest.mark.parametrize("repeats", [1, 4])
@pytest.mark.parametrize("sigma", [0.3, 0.8])
def test_the_interval_covers_what_a_run_spends(repeats: int, sigma: float) -> None:
    """Tasks and rollouts have lognormal amounts, as lengths of answers have."""
    chance, hits = random.Random(f"{repeats} {sigma}"), 0

    def play(tasks: int) -> list[list[float]]:
        means = [chance.lognormvariate(0.0, sigma) for _ in range(tasks)]
        return [[mean * chance.lognormvariate(0.0, sigma) for _ in range(repeats)] for mean in means]

    for _ in range(PLAYS):
        told = predict_total(play(30), 50, 50 * repeats)
        assert told.low is not None
        assert told.high is not None
        hits += told.low <= sum(map(sum, play(50))) <= told.high
    assert hits / PLAYS > 0.84, "the tail of a heavy distribution costs some points"
    assert hits / PLAYS < 1.0, "an interval that always covers is too wide"


def test_a_total_is_the_mean_of_a_rollout_times_their_number() -> None:
    told = predict_total([[1.0, 3.0], [4.0]], 10, 30)
    assert told.mean == pytest.approx(80.0)
    assert predict_total([[5.0, 5.0]], 3, 6) == (30.0, None, None), "one task tells nothing of others"
    assert predict_total([[2.0]] * 4, 5, 5) == (10.0, None, None), "four equal tasks tell little of others"
    assert predict_total([[2.0]] * 5, 5, 5) == (10.0, 10.0, 10.0)


def test_all_attempts_at_a_rollout_and_all_models_count(tmp_path: Path) -> None:
    failed = failure_row(
        0, agent="mcqa_agent", _ng_failure_terminal=False, _ng_spent={"policy_model": [1, 40, 0, 0]}
    )
    run = store_run(tmp_path, "run", "small", [spend(0), spend(1)], [failed])
    found = estimate(plan(4, 8), run)
    tokens = (2 * (110 + 25) + 40) / 2 * 8
    assert found.totals["tokens"].mean == pytest.approx(tokens)
    cost = (2 * (100 + 40 + 200 + 200) + 40) / 2 * 8 / 1e6
    assert found.totals["cost"].mean == pytest.approx(cost)
    assert found.totals["seconds"].mean == pytest.approx(16.0)
    assert found.measured.rollouts == 2
    lines = list(describe_estimates([found], has_prices=True))
    assert lines[0] == f"mcqa: 8 rollouts of 4 tasks, by 2 rollouts of 2 tasks in {run} (small)"
    assert lines[1].startswith("  tokens  1,240 (")
    assert not any("cost" in line for line in describe_estimates([found], has_prices=False))


def test_rows_that_counted_no_calls_tell_those_of_the_policy_and_say_so(tmp_path: Path) -> None:
    usage = {"input_tokens": 90, "output_tokens": 10, "total_tokens": 100}
    rows = [scored_row(task, agent="mcqa_agent", response={"output": [], "usage": usage}) for task in (0, 1)]
    found = estimate(plan(2, 2), store_run(tmp_path, "run", "small", rows))
    assert found.totals["tokens"].mean == 200.0
    assert found.totals["cost"].mean == pytest.approx(2 * (90 + 40) / 1e6)
    assert any("of the policy alone" in line for line in describe_estimates([found], has_prices=True))


def test_the_latest_run_of_the_same_environment_and_model_is_chosen(tmp_path: Path) -> None:
    def store_at(name: str, model: str, agent: str, seconds: float) -> Path:
        path = store_run(tmp_path / name, name, model, [spend(task, agent=agent) for task in range(2)])
        os.utime(path, (seconds, seconds))
        return path

    same = store_at("same", "small", "mcqa_agent", 100.0)
    other_model = store_at("other", "large", "mcqa_agent", 300.0)
    store_at("quiz", "small", "quiz_agent", 400.0)
    (tmp_path / "odd_run.json").write_text("{")
    (tmp_path / "odd.jsonl").write_text('{"question": "?"}\n')
    runs = find_runs(tmp_path)
    assert runs[1:4] == [tmp_path / "quiz" / "quiz.jsonl", other_model, same] or same in runs
    assert estimate(plan(), *runs).run == same
    assert estimate(plan(model="huge"), *runs).run == other_model, "no run has this model"
    unknown = ExpensePlan({"a": Planned(1, 1)}, {}, (), {}, {})
    assert estimate_expenses(unknown, runs) == []


def test_environments_have_estimates_of_their_own_and_a_sum(tmp_path: Path) -> None:
    rows = [spend(task) for task in range(5)]
    rows += [spend(task + 10, tokens=400 + task, agent="quiz_agent") for task in range(5)]
    run = store_run(tmp_path, "run", "small", rows)
    agents = {"mcqa_agent": Planned(3, 3), "quiz_agent": Planned(3, 3)}
    found = estimate_expenses(plan(agents=agents), [run])
    assert [each.environment for each in found] == ["mcqa", "quiz"]
    whole = add_totals(found, "tokens")
    assert whole.mean == pytest.approx(sum(each.totals["tokens"].mean for each in found))
    assert whole.low is not None
    assert whole.low < whole.mean
    assert "all environments:" in list(describe_estimates(found, has_prices=False))


def test_a_run_on_the_same_tasks_is_preferred_and_another_one_is_told(tmp_path: Path) -> None:
    same = store_run(tmp_path, "same", "small", [spend(0), spend(1)], datasets=["a"])
    other = store_run(tmp_path, "other", "small", [spend(0, tokens=7), spend(1, tokens=7)], datasets=["b"])
    planned = plan()._replace(datasets=frozenset({"a"}))
    found = estimate(planned, other, same)
    assert (found.run, found.has_other_tasks) == (same, False)
    found = estimate(planned, other)
    assert found.has_other_tasks
    assert "another file of tasks" in "\n".join(describe_estimates([found], has_prices=False))


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    run = store_run(tmp_path, "run", "small", [spend(0), spend(1)])
    run.write_bytes(run.read_bytes() + b"[1, 2]\n")
    with pytest.raises(ConfigError, match=r"run\.jsonl:3"):
        estimate_expenses(plan(), [run])
