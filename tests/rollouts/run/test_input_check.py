"""The checks of a collection's input that need no running server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.config.problems import ConfigErrors
from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.input_check import check_input
from nemo_gym.rollouts.run.settings import CollectSettings
from tests.rollouts.doubles import AGENT, write_dataset

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
