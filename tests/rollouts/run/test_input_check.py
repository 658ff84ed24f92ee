"""The checks of a collection's input that need no running server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import ConfigError
from nemo_gym.names import CODE_KEY
from nemo_gym.rollouts.output.files import RunFiles
from nemo_gym.rollouts.output.journal import Existing, open_journal
from nemo_gym.rollouts.output.manifest import build_identity
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.input_check import check_input, refuse_other_run
from nemo_gym.rollouts.run.settings import CollectSettings
from tests.rollouts.doubles import AGENT, task_row, write_dataset
from tests.rollouts.stored_runs import failure_row, judge_failure_row, scored_row, store

GYM: dict[str, Any] = {AGENT: {"responses_api_agents": {"simple": {}}}}


def settings_in(folder: Path, rows: str | None = None) -> CollectSettings:
    dataset = folder / "tasks.jsonl"
    if rows is None:
        write_dataset(dataset, 2)
    else:
        dataset.write_text(rows)
    return CollectSettings(datasets=(DatasetFile(dataset, 3),), output=folder / "out" / "rows.jsonl")


def test_valid_input_gives_its_datasets(tmp_path: Path) -> None:
    inspection = check_input(settings_in(tmp_path), GYM).inspection
    assert (inspection.rollouts, dict(inspection.agents)) == (6, {AGENT: 2})


def test_faults_of_output_rows_and_gym_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    settings = settings_in(tmp_path, "nope\n")
    with pytest.raises(ConfigErrors) as raised:
        check_input(settings, ConfigError("there is no gym", code="no_gym", remedy="Start one."))
    output, rows, gym = raised.value.problems
    assert output.message.startswith("the output folder")
    assert "tasks.jsonl:1: is not JSON" in rows.message
    assert (gym.message, gym.remedy) == ("there is no gym", "Start one.")


def test_a_single_error_keeps_its_code(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "rows.jsonl").write_text("{}\n")
    with pytest.raises(ConfigError) as raised:
        check_input(settings, GYM)
    assert raised.value.failure.code == "output_exists"


def test_an_unknown_agent_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors, match=f"no agent is named `{AGENT}`"):
        check_input(settings_in(tmp_path), {})


def test_a_refused_first_run_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors):
        check_input(settings_in(tmp_path), {})
    assert [path.name for path in tmp_path.iterdir()] == ["tasks.jsonl"]


def test_an_override_of_the_wrong_type_is_reported_and_an_unknown_one_is_an_agent_s(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    for params in ({"temperature": 0.5, "top_k": "of an agent"}, {}):
        check_input(settings.model_copy(update={"responses_create_params": params}), GYM)
    wrong = {"temperature": "hot", "max_output_tokens": "many"}
    with pytest.raises(ConfigErrors) as raised:
        check_input(settings.model_copy(update={"responses_create_params": wrong}), GYM)
    assert set(map(str, raised.value.problems)) == {
        "+responses_create_params.temperature must be a number, not 'hot'. Write a number, such as 3.",
        "+responses_create_params.max_output_tokens must be a whole number, not 'many'. Write a number, such as 3.",
    }


@pytest.mark.parametrize(
    "row",
    [
        scored_row(0, 1),
        failure_row(0, **task_row(0)),
        judge_failure_row(0, **task_row(0)),
        {
            "_ng_task_index": 0,
            "_ng_rollout_index": 1,
            **task_row(0),
            "response": {"output": []},
            "reward": 0.0,
        },
    ],
)
def test_results_of_a_run_are_no_tasks(tmp_path: Path, row: dict[str, Any]) -> None:
    settings = settings_in(
        tmp_path, orjson.dumps(task_row(1)).decode() + "\n" + orjson.dumps(row).decode() + "\n"
    )
    with pytest.raises(
        ConfigError, match=r"tasks.jsonl:2 is the result of an attempt, and no task"
    ) as raised:
        check_input(settings.model_copy(update={"skip_invalid_rows": True}), GYM)
    assert "gym: --resume" in str(raised.value)


def test_results_as_input_name_the_tasks_of_their_run(tmp_path: Path) -> None:
    results = store(tmp_path / "tasks.jsonl", [scored_row(0), scored_row(0, 1)])
    start = {"settings": {"datasets": ["data/first.jsonl", "data/second.jsonl"]}}
    manifest = {"schema_version": 1, "identity": {"config": {}}, "starts": [start]}
    (tmp_path / "tasks_run.json").write_bytes(orjson.dumps(manifest))
    settings = CollectSettings(datasets=(DatasetFile(results),), output=tmp_path / "out" / "rows.jsonl")
    with pytest.raises(ConfigError, match=r"in data/first\.jsonl, data/second\.jsonl"):
        check_input(settings, GYM)


def test_task_rows_with_a_reward_or_with_places_of_their_own_are_tasks(tmp_path: Path) -> None:
    rows = [{**task_row(0), "reward": 1.0, "response": "of a human"}, {**task_row(1), "_ng_task_index": 7}]
    settings = settings_in(tmp_path, "".join(orjson.dumps(row).decode() + "\n" for row in rows))
    assert check_input(settings, GYM).inspection.rollouts == 6


def test_equal_tasks_are_told_before_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check_input(settings_in(tmp_path, 3 * (orjson.dumps(task_row(0)).decode() + "\n")), GYM)
    assert "2 of 3 rows repeat the task of an earlier one" in caplog.text


def settings_until(folder: Path, rows: str | None = None, **options: Any) -> CollectSettings:
    settings = settings_in(folder, rows)
    dataset = settings.datasets[0].path
    if rows is None:
        write_dataset(dataset, 30, agent=None)
    return CollectSettings(datasets=(DatasetFile(dataset),), output=settings.output, **options)


def agent_with(model: str, **options: Any) -> dict[str, Any]:
    block = {"model_server": {"type": "responses_api_models", "name": model}, **options}
    return {"responses_api_agents": {"simple": block}}


MODEL = {"responses_api_models": {"vllm_model": {"model": "alpha-8b"}}}
PAIR = f"{AGENT} differs from other"


def test_a_pair_of_one_agent_under_two_names_is_refused(tmp_path: Path) -> None:
    gym = {
        AGENT: agent_with("policy_model", host="127.0.0.1", port=1, datasets=[{"name": "example"}]),
        "other": agent_with("policy_model", host="127.0.0.1", port=2),
        "policy_model": MODEL,
        "other_model": MODEL,
    }
    with pytest.raises(
        ConfigError, match="are the same agent under two names: both use `policy_model`"
    ) as raised:
        check_input(settings_until(tmp_path, until=PAIR), gym)
    assert "No server uses `other_model`." in str(raised.value)


@pytest.mark.parametrize("other", [agent_with("other_model"), agent_with("policy_model", max_steps=3)])
def test_agents_that_differ_in_anything_are_a_pair(tmp_path: Path, other: dict[str, Any]) -> None:
    gym = {AGENT: agent_with("policy_model"), "other": other, "policy_model": MODEL, "other_model": MODEL}
    assert check_input(settings_until(tmp_path, until=PAIR), gym).inspection.agents == {
        AGENT: 30,
        "other": 30,
    }


@pytest.mark.parametrize("until", [f"{AGENT} differs from {AGENT}", f"{AGENT} differs", "a is better than b"])
def test_a_wrong_aim_is_no_fault_of_rows(tmp_path: Path, until: str) -> None:
    gym = {AGENT: agent_with("policy_model"), "other": agent_with("other_model")}
    with pytest.raises(ConfigError, match=r"\+until") as raised:
        check_input(settings_until(tmp_path, until=until), gym)
    assert "agent_ref" not in str(raised.value)
    faulty = '{"answer": 1}\n'
    with pytest.raises(ConfigErrors) as both:
        check_input(settings_until(tmp_path, faulty, until=until), gym)
    aim, rows = both.value.problems
    assert "+until" in aim.message
    assert "`responses_create_params` is missing" in rows.message
    assert "agent_ref" not in rows.message


def test_repeats_that_an_aim_would_ignore_are_refused(tmp_path: Path) -> None:
    gym = {AGENT: agent_with("policy_model")}
    with pytest.raises(ConfigError, match=r"it excludes \+num_repeats=4 \(gym: -n\)"):
        check_input(settings_until(tmp_path, until="±6%", repeats_of_all=4), gym)
    check_input(settings_until(tmp_path, until="±6%", repeats_of_all=1), gym)
    check_input(settings_until(tmp_path, until="±40%", repeats_of_all=4, generalize=True), gym)


def test_a_run_of_other_code_is_refused_before_a_server_starts(tmp_path: Path) -> None:
    def gym_of(digest: str) -> dict[str, Any]:
        code = {"version": "1", "servers": [{"name": AGENT, "folder": "f", "files": [["app.py", digest]]}]}
        return {**GYM, CODE_KEY: code}

    settings = settings_in(tmp_path).model_copy(update={"existing": Existing.RESUME})
    checked = check_input(settings, GYM)
    identity = build_identity(checked.plan, checked.inspection, GYM, gym_of("1"))
    journal = open_journal(RunFiles.from_output(settings.output), identity, {}, is_planned=lambda _: True)
    refuse_other_run(settings, checked, gym_of("2"))  # no row was scored by the first code
    journal.add_row(orjson.dumps(scored_row(0, 0, 1.0)))
    journal.close({})
    refuse_other_run(settings, checked, gym_of("1"))
    with pytest.raises(ConfigError, match=r"app\.py has changed"):
        refuse_other_run(settings, checked, gym_of("2"))


def test_a_run_that_is_being_written_is_refused_before_a_server_starts(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    identity: dict[str, Any] = {"config": {}}
    journal = open_journal(RunFiles.from_output(settings.output), identity, {}, is_planned=lambda _: True)
    for existing in Existing:
        with pytest.raises(ConfigError, match="another process is writing"):
            check_input(settings.model_copy(update={"existing": existing}), GYM)
    journal.close({})
    check_input(settings, GYM)
