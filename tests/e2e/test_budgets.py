"""Budgets on real processes: they agree with the engine's own counters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.mock_engine import EngineOptions
from nemo_gym.mock_engine.process import EngineProcess
from tests.e2e.gym_run import GymRun
from tests.e2e.test_control import TASKS, build_run
from tests.samples import IS_WHOLE


@pytest.fixture
def engine() -> Iterator[EngineProcess]:
    with EngineProcess(EngineOptions(policy="tools")) as engine:
        yield engine


def count_tokens(engine: EngineProcess) -> int:
    stats = engine.stats()
    return int(stats["prompt_tokens"]) + int(stats["completion_tokens"])


def finish(run: GymRun) -> tuple[int, dict[str, Any]]:
    with run:
        return run.finish(600)


def test_what_a_run_has_spent_is_what_the_engine_has_counted(tmp_path: Path, engine: EngineProcess) -> None:
    engine.reset_stats()
    repeats = 10_000 // TASKS + 1 if IS_WHOLE else 2
    run = build_run(
        tmp_path,
        engine.base_url,
        "+prices={mock: {input: 1, cached: 0.1, output: 4}}",
        f"++num_repeats={repeats}",
        "++num_samples_in_parallel=64",
    )
    exit_code, summary = finish(run)
    assert (exit_code, len(run.rows())) == (0, repeats * TASKS), run.errors
    stats, spent = engine.stats(), summary["spent"]
    (policy,) = spent["models"]
    assert (policy["input"], policy["output"]) == (stats["prompt_tokens"], stats["completion_tokens"])
    assert (policy["server"], policy["model"], policy["role"]) == ("policy_model", "mock", "policy")
    uncached = policy["input"] - policy["cached"]
    assert spent["cost"] == pytest.approx((uncached + 0.1 * policy["cached"] + 4 * policy["output"]) / 1e6)
    assert sum(sum(row["_ng_spent"]["policy_model"][1::2]) for row in run.rows()) == spent["tokens"]


def test_a_dry_run_tells_what_a_run_will_spend_and_starts_nothing(
    tmp_path: Path, engine: EngineProcess
) -> None:
    run = build_run(tmp_path, engine.base_url, "+prices={mock: {input: 1, output: 4}}")
    exit_code, summary = finish(run)
    assert exit_code == 0, run.errors
    engine.reset_stats()
    planned = build_run(
        tmp_path,
        engine.base_url,
        "+prices={mock: {input: 1, output: 4}}",
        "++num_repeats=8",
        "+dry_run=true",
        "+budget.run.tokens=1",
    )
    planned.output = planned.output.with_name("planned.jsonl")
    exit_code, told = finish(planned)
    assert (exit_code, told["rollouts"]) == (0, 8 * TASKS), planned.errors
    (estimate,) = told["estimates"]
    assert (estimate["measured_rollouts"], estimate["run"]) == (len(run.rows()), "out/rollouts.jsonl")
    for name in ("tokens", "cost"):
        assert told["total"][name]["mean"] == pytest.approx(summary["spent"][name] * 2)
        assert told["total"][name]["low"] <= summary["spent"][name] * 2 <= told["total"][name]["high"]
    assert count_tokens(engine) == 0
    assert sorted(path.name for path in planned.output.parent.glob("planned*")) == []
    more = ("++num_repeats=8", "+dry_run=true", "+resume_from_cache=true")
    exit_code, told = finish(build_run(tmp_path, engine.base_url, *more))
    assert (exit_code, told["rollouts"]) == (0, 8 * TASKS - len(run.rows())), (
        "stored rollouts are not made again"
    )


def test_a_rollout_over_its_budget_is_truncated_and_scored(tmp_path: Path, engine: EngineProcess) -> None:
    run = build_run(tmp_path, engine.base_url, "+budget.rollout.tokens=1")
    exit_code, summary = finish(run)
    assert exit_code == 0, run.errors
    rows = run.rows()
    assert {row["_ng_end_reason"] for row in rows} == {"budget"}
    assert {row["_ng_outcome"] for row in rows} == {"truncated"}
    assert all(row["_ng_spent"]["policy_model"][0] == 1 for row in rows), "the second call is refused"
    assert summary["truncations"] == {"budget": len(rows)}


def test_the_budget_of_a_run_drains_it_and_the_overshoot_is_what_was_in_flight(
    tmp_path: Path, engine: EngineProcess
) -> None:
    engine.reset_stats()
    run = build_run(tmp_path, engine.base_url, "+budget.run.tokens=5000")
    exit_code, summary = finish(run)
    assert exit_code == 3, run.errors
    assert (summary["end"], summary["counts"]["cancelled"]) == ("budget", 0)
    spent = summary["spent"]["tokens"]
    assert spent == count_tokens(engine)
    largest = max(sum(row["_ng_spent"]["policy_model"][1::2]) for row in run.rows())
    assert 5000 <= spent < 5000 + 8 * largest
    assert any("more by rollouts that were in flight" in note for note in summary["notes"])
    again = build_run(tmp_path, engine.base_url, "+budget.run.tokens=1000000", "+resume_from_cache=true")
    exit_code, summary = finish(again)
    assert (exit_code, summary["spent"]["tokens"]) == (0, count_tokens(engine)), again.errors


def test_the_budget_of_a_task_starts_no_further_rollout_of_it(tmp_path: Path, engine: EngineProcess) -> None:
    run = build_run(tmp_path, engine.base_url, "+budget.task.tokens=1", "++num_samples_in_parallel=1")
    exit_code, summary = finish(run)
    rows = run.rows()
    assert (exit_code, len(rows)) == (3, len({row["_ng_task_index"] for row in rows})), run.errors
    assert any("rollouts of 60 tasks were not started" in note for note in summary["notes"])


def test_an_unknown_price_is_refused_before_the_start(tmp_path: Path, engine: EngineProcess) -> None:
    for overrides in (["+budget.run.cost=1"], ["+prices={mocc: {input: 1, output: 4}}"]):
        run = build_run(tmp_path, engine.base_url, *overrides)
        exit_code, told = finish(run)
        first = told["problems"][0]
        assert (exit_code, first["message"]) == (
            2,
            "the price of the model 'mock' of `policy_model` (policy) is unknown",
        )
    assert "mocc" in first["remedy"]
    assert engine.stats()["prompt_tokens"] == 0


STATEFUL = "example_session_state_mgmt"
JUDGED = "equivalence_llm_judge"
JUDGE = """
judge_model:
  responses_api_models:
    vllm_model:
      entrypoint: app.py
      base_url: ${policy_base_url}
      api_key: none
      model: mock
equivalence_llm_judge:
  resources_servers:
    equivalence_llm_judge:
      judge_model_server:
        name: judge_model
"""


def test_the_calls_of_judges_are_counted_and_a_rollout_over_its_budget_is_still_judged(
    tmp_path: Path, engine: EngineProcess
) -> None:
    (tmp_path / "judge.yaml").write_text(JUDGE)
    vllm = "responses_api_models/vllm_model/configs/vllm_model.yaml"
    configs = f"resources_servers/{JUDGED}/configs/{JUDGED}.yaml,{vllm}"
    engine.reset_stats()
    run = build_run(
        tmp_path,
        engine.base_url,
        f"++config_paths=[{configs},judge.yaml]",
        f"++agent_name={JUDGED}_simple_agent",
        f"++input_jsonl_fpath=resources_servers/{JUDGED}/data/example.jsonl",
        "+budget.rollout.tokens=1",
        "+prices={mock: {input: 1, output: 4}, judge_model: {input: 2, output: 8}}",
        "+max_attempts=2",
        "+stop_after_identical_failures=0",
    )
    _, summary = finish(run)
    assert "spent" in summary, summary
    models = {each["role"]: each for each in summary["spent"]["models"]}
    assert models.keys() == {"policy", "judge"}, run.errors
    assert models["judge"]["server"] == "judge_model"
    assert models["judge"]["calls"] > 0 < models["policy"]["calls"]
    assert summary["spent"]["tokens"] == count_tokens(engine), "failed attempts are counted too"
    assert summary["spent"]["cost"] == pytest.approx(sum(each["cost"] for each in models.values()))


def write_mixed_tasks(folder: Path) -> tuple[Path, int]:
    """Tasks of an environment with tools and of one with a judge, each named by its agent."""
    rows = []
    for name in (STATEFUL, JUDGED):
        lines = (PARENT_DIR / f"resources_servers/{name}/data/example.jsonl").read_text().splitlines()
        agent = {"type": "responses_api_agents", "name": f"{name}_simple_agent"}
        rows += [json.dumps({**json.loads(line), "agent_ref": agent}) for line in lines]
    path = folder / "mixed.jsonl"
    path.write_text("".join(f"{row}\n" for row in rows))
    return path, len(rows)


def test_judges_and_continued_attempts_are_counted_once(tmp_path: Path) -> None:
    """Engines fail now and then; a continued attempt answers the calls of the one before from its record."""
    (tmp_path / "judge.json").write_text(json.dumps([{"turns": [{"text": "[[A=B]]"}]}]))
    (tmp_path / "judge.yaml").write_text(JUDGE.replace("${policy_base_url}", "${judge_base_url}"))
    kinds = (
        "responses_api_models/vllm_model",
        f"resources_servers/{STATEFUL}",
        f"resources_servers/{JUDGED}",
    )
    configs = [f"{kind}/configs/{kind.split('/')[1]}.yaml" for kind in kinds]
    path, tasks = write_mixed_tasks(tmp_path)
    repeats = 10_000 // tasks + 1 if IS_WHOLE else 6
    faults = [{"do": "http_500", "probability": 0.1}]
    judge_options = EngineOptions(policy="script", script=tmp_path / "judge.json", faults=faults)
    with (
        EngineProcess(EngineOptions(policy="tools", faults=faults)) as policy,
        EngineProcess(judge_options) as judge,
    ):
        run = build_run(
            tmp_path,
            policy.base_url,
            f"++config_paths=[{','.join(configs)},judge.yaml]",
            f"++judge_base_url={judge.base_url}",
            "++policy_model.responses_api_models.vllm_model.retry_s=0",
            f"++input_jsonl_fpath={path}",
            f"++num_repeats={repeats}",
            "++num_samples_in_parallel=32",
            "+durability=process",
            "+max_attempts=50",
            "+stop_after_identical_failures=0",
            "+prices={mock: {input: 1, output: 4}, judge_model: {input: 2, output: 8}}",
        )
        exit_code, summary = finish(run)
        assert (exit_code, len(run.rows())) == (0, repeats * tasks), run.errors[-3000:]
        spent = summary["spent"]
        models = {each["role"]: each for each in spent["models"]}
        for role, engine in (("policy", policy), ("judge", judge)):
            counted, told = engine.stats(), (models[role]["input"], models[role]["output"])
            assert told == (counted["prompt_tokens"], counted["completion_tokens"]), role
    replayed = [row["_ng_replay"]["calls_replayed"] for row in run.rows() if "_ng_replay" in row]
    assert sum(replayed) > 0, "attempts were continued"
    assert spent["tokens"] == sum(map(count_spent, [*run.rows(), *run.failures()]))
    assert spent["cost"] == pytest.approx(sum(each["cost"] for each in models.values()))
    for parts in (spent["environments"], spent["agents"]):
        assert len(parts) == 2
        assert sum(part["cost"] for part in parts.values()) == pytest.approx(spent["cost"])
    assert set(spent["environments"][STATEFUL]["servers"]) == {"policy_model"}, "it has no judge"


def count_spent(row: dict[str, Any]) -> int:
    return sum(counts[1] + counts[3] for counts in row.get("_ng_spent", {}).values())
