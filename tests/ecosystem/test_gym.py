"""Every environment, agent and model of the project in one gym, from its datasets to scored rollouts."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.ecosystem.conftest import FIXTURES, RunningGym, read_rows, run

ROWS = [row for path in sorted(FIXTURES.glob("*/*/data/example.jsonl")) for row in read_rows(path)]


@dataclass(frozen=True)
class Collected:
    rows: list[dict[str, Any]]
    failures: list[dict[str, Any]]
    tasks: list[dict[str, Any]]
    """As the agents were sent them."""
    metrics: dict[str, dict[str, Any]]
    """Agent → what `ng_collect_rollouts` wrote of it."""
    summary: dict[str, Any]


@pytest.fixture(scope="module")
def collected(gym: RunningGym, environment: dict[str, str]) -> Collected:
    """`ng_prepare_data`, and `ng_collect_rollouts` over what it put together, against the running gym."""
    prepared = run(
        gym.project,
        environment,
        "prepare_data",
        "+config_paths=[configs/all.yaml]",
        "+mode=example_validation",
        "+output_dirpath=data",
    )
    assert prepared.returncode == 0, prepared.stdout + prepared.stderr
    arguments = ["+input_jsonl_fpath=data/example.jsonl", "+output_jsonl_fpath=out/all.jsonl"]
    done = run(gym.project, environment, "collect_rollouts", *arguments, "+max_attempts=1", "+json=true")
    assert done.returncode == 3, done.stdout + done.stderr  # some rows are there to fail
    out = gym.project / "out"
    metrics = json.loads((out / "all_aggregate_metrics.json").read_text())
    return Collected(
        rows=read_rows(out / "all.jsonl"),
        failures=read_rows(out / "all_failures.jsonl"),
        tasks=read_rows(out / "all_materialized_inputs.jsonl"),
        metrics={entry["agent_ref"]["name"]: entry for entry in metrics},
        summary=json.loads(done.stdout),
    )


def test_every_server_of_the_project_runs(gym: RunningGym) -> None:
    configs = (FIXTURES / "configs" / "all.yaml").read_text()
    for kind in ("resources_servers", "responses_api_agents"):
        for folder in (FIXTURES / kind).iterdir():
            assert f"{kind}/{folder.name}/" in configs + (FIXTURES / "configs" / "variants.yaml").read_text()
    assert len(gym.urls["replicated"]) == 2


def test_every_environment_agent_and_model_took_part_in_a_rollout(
    gym: RunningGym, collected: Collected
) -> None:
    assert collected.rows
    implementations = {
        entry["name"]: (entry["server_type"], entry["implementation"])
        for entry in ask(gym.head, "/server_instances")
    }
    worked = {"/".join(implementations[name]) for name, urls in gym.urls.items() if any(map(was_asked, urls))}
    ours = {path.parent.relative_to(FIXTURES).as_posix() for path in FIXTURES.glob("*/*/app.py")}
    assert len(ours) >= 30
    assert ours - worked == {"resources_servers/own_app"}, "which brings its own app and tells no figures"
    assert "own_app_simple_agent" in collected.metrics


def was_asked(url: str) -> bool:
    """Return whether a server has counted requests."""
    try:
        return bool(ask(url, "/_ng/stats")["requests"])
    except urllib.error.HTTPError:
        return False


def ask(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=30) as answer:
        return json.loads(answer.read())


def test_every_rollout_gets_the_reward_or_the_failure_that_its_row_expects(collected: Collected) -> None:
    wrong = [
        (row["agent_ref"]["name"], row["reward"], row.get("expected_reward"), row["response"]["output"][-1:])
        for row in collected.rows
        if row["reward"] != row.get("expected_reward")
    ]
    assert wrong == []
    expected = {task["_ng_task_index"]: task.get("expected_failure") for task in collected.tasks}
    failed = {row["_ng_task_index"]: row["_ng_failure_class"] for row in collected.failures}
    assert failed == {task: kind for task, kind in expected.items() if kind}
    assert len(collected.rows) + len(failed) == len(collected.tasks) >= len(ROWS)


def test_rows_hold_their_task_row_whatever_their_agent_answers(collected: Collected) -> None:
    tasks = {task["_ng_task_index"]: task for task in collected.tasks}
    for row in collected.rows:
        task = tasks[row["_ng_task_index"]]
        assert task.keys() <= row.keys(), row["agent_ref"]
        assert row["agent_ref"] == task["agent_ref"]
        assert row["response"]["object"] == "response"


def test_failures_carry_their_root_cause_and_no_reward(collected: Collected) -> None:
    by_agent = {row["agent_ref"]["name"]: row["_ng_failure"]["message"] for row in collected.failures}
    assert "the judge is out of order" in by_agent["equivalence_simple_agent"]
    assert all("reward" not in row for row in collected.failures)


def test_parts_of_a_reward_sum_up_to_it(collected: Collected) -> None:
    parts = [row for row in collected.rows if row["agent_ref"]["name"] == "multi_reward_simple_agent"]
    assert parts
    assert all(row["reward"] == sum(row["reward_components"].values()) for row in parts)


def test_environments_and_agents_have_their_own_metrics(collected: Collected) -> None:
    metrics = collected.metrics
    assert metrics["multi_reward_simple_agent"]["agent_metrics"]["mean_length"] > 0
    quiz = metrics["quiz_simple_agent"]
    assert quiz["agent_metrics"]["easy/pass@1/accuracy"] == 100.0
    assert quiz["key_metrics"]["pass@1[avg-of-1]/accuracy"] == pytest.approx(100 / 3)
    assert "no_answer" not in json.dumps(quiz["key_metrics"])
    assert metrics["leaderboard_simple_agent"]["key_metrics"]["best_reward"] == 3.0
    assert metrics["solo_agent"]["key_metrics"]["solo/tasks"] == 1
    assert metrics["essay_judge_simple_agent"]["agent_metrics"]["coverage/reward"] == 50.0


def test_a_session_always_reaches_the_replica_that_opened_it(collected: Collected) -> None:
    rows = [row for row in collected.rows if row["agent_ref"]["name"] == "replicated_simple_agent"]
    assert len(rows) == 6
    assert all(row["reward"] == 1.0 for row in rows)


def test_a_dataset_has_its_own_prompt_and_repeats(collected: Collected) -> None:
    rows = [row for row in collected.rows if row["agent_ref"]["name"] == "prompted_simple_agent"]
    assert len(rows) == 4, "two rows, each twice"
    assert {row["responses_create_params"].get("temperature") for row in rows} == {None, 0.5}


def test_every_directive_of_the_configuration_is_followed(project: Path, environment: dict[str, str]) -> None:
    variables = {**environment, "ECOSYSTEM_TEST_DESCRIPTION": "from the environment"}
    arguments = ["+config_paths=[configs/policy.yaml,configs/variants.yaml]", "+json=true"]
    missing = run(project, variables, "dump_config", *arguments)
    assert missing.returncode == 2
    assert "minimum_words" in missing.stdout + missing.stderr
    done = run(project, variables, "dump_config", *arguments, "+minimum_words=7")
    assert done.returncode == 0, done.stderr
    config = json.loads(done.stdout)
    strict = config["strict_word_count"]["resources_servers"]["word_count"]
    assert (strict["minimum"], strict["description"], strict["entrypoint"]) == (
        7,
        "from the environment",
        "app.py",
    )
    lean = config["lean_word_count"]["resources_servers"]["word_count"]
    assert not {"value", "verified"} & lean.keys()
    assert lean["minimum"] == 7
    assert "value" in config["word_count"]["resources_servers"]["word_count"]
    assert not {"to_be_renamed", "word_count_simple_agent"} & config.keys()
    renamed = config["renamed_agent"]["responses_api_agents"]["simple_agent"]
    assert renamed["resources_server"]["name"] == "lean_word_count"
    assert renamed["datasets"][0]["jsonl_fpath"] == "resources_servers/word_count/data/example.jsonl"
    assert (
        config["another_name"]["responses_api_agents"]["simple_agent"]["resources_server"]["name"]
        == "word_count"
    )
