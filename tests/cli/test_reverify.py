"""`ng_reverify` needs the policy only where a judge calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym import PARENT_DIR
from nemo_gym.cli.reverify import COMMAND, main, require_models
from nemo_gym.failures import ConfigError
from tests.rollouts.stored_runs import scored_row, store
from tests.sources.atif.test_reading import answers, asks, trajectory

FILES = ("+input_jsonl_fpath=run.jsonl", "+output_jsonl_fpath=again.jsonl")
MCQA = "resources_servers/mcqa/configs/mcqa.yaml"
JUDGED = "resources_servers/equivalence_llm_judge/configs/equivalence_llm_judge.yaml"
VLLM = "responses_api_models/vllm_model/configs/vllm_model.yaml"
POLICY = ("+policy_base_url=http://127.0.0.1:9/v1", "+policy_api_key=none", "+policy_model_name=m")


@pytest.mark.parametrize("paths", [MCQA, f"{MCQA},{VLLM}"])
def test_a_configuration_without_the_policy_is_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: str
) -> None:
    monkeypatch.chdir(tmp_path)
    _, config = COMMAND.load([f"+config_paths=[{paths}]", *FILES])
    assert {"mcqa", "policy_model"} <= {server.name for server in config.servers}


def test_a_given_policy_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, config = COMMAND.load([f"+config_paths=[{MCQA},{VLLM}]", *FILES, *POLICY])
    assert config.data["policy_model"]["responses_api_models"]["vllm_model"]["base_url"].endswith(":9/v1")


def test_a_judge_without_a_url_is_an_error_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    store(tmp_path / "run.jsonl", [scored_row(0, agent="equivalence_llm_judge_simple_agent")])
    with pytest.raises(SystemExit) as ended:
        main([f"+config_paths=[{JUDGED}]", *FILES])
    assert ended.value.code == 2
    printed = capfd.readouterr().err
    assert "`policy_model`, which has no URL" in printed
    assert "+policy_base_url=<value>" in printed
    assert not (tmp_path / "again.jsonl").exists()


@pytest.mark.parametrize(("uses_judge", "is_refused"), [("true", True), ("false", False)])
def test_a_judge_that_is_not_used_needs_no_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uses_judge: str, is_refused: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = "resources_servers/math_with_judge/configs/math_with_judge.yaml"
    judge = f"math_with_judge.resources_servers.math_with_judge.should_use_judge={uses_judge}"
    _, config = COMMAND.load([f"+config_paths=[{paths}]", judge, *FILES])
    if not is_refused:
        require_models(config)
        return
    with pytest.raises(ConfigError, match="`policy_model`, which has no URL"):
        require_models(config)


def test_trajectories_without_their_tasks_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(trajectory(asks(), answers())))
    with pytest.raises(SystemExit) as ended:
        main([f"+config_paths=[{MCQA}]", "+input_jsonl_fpath=run.json", *FILES[1:], "+input_format=atif"])
    assert ended.value.code == 2
    assert "run.json: none of the task rows is its task (s)" in capfd.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([f"+config_paths=[{MCQA}]", *FILES, "+task_rows=tasks.jsonl"])
    assert "`task_rows` needs `input_format=atif` or `verifiers`" in capfd.readouterr().err


def test_a_trajectory_is_verified_with_the_row_of_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tasks = PARENT_DIR / "resources_servers" / "mcqa" / "data" / "example.jsonl"
    given = trajectory(asks(), answers("\\boxed{C}"), extra={"task_id": "mcqa-example-1", "reward": 0})
    (tmp_path / "run.json").write_text(json.dumps(given))
    arguments = ["+input_jsonl_fpath=run.json", *FILES[1:], "+input_format=atif", f"+task_rows={tasks}"]
    with pytest.raises(SystemExit) as ended:
        main([f"+config_paths=[{MCQA}]", *arguments, "+placement=inline", "++head_server.port=0"])
    assert ended.value.code == 0, capfd.readouterr().err
    (row,) = (json.loads(line) for line in (tmp_path / "again.jsonl").read_text().splitlines())
    assert (row["reward"], row["_ng_reverified"]) == (1.0, {"reward_before": 0.0})
    assert row["_ng_foreign"]["tokens"] == "none"
