"""The settings of a collection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import DatasetFile
from nemo_gym.rollouts.run.options import SkillsKeys
from nemo_gym.rollouts.run.settings import CollectSettings


def test_an_output_that_is_an_input_is_refused(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.touch()
    with pytest.raises(ConfigError):
        CollectSettings(datasets=(DatasetFile(rows),), output=rows)


def test_the_plan_and_the_manifest_have_the_settings(tmp_path: Path) -> None:
    settings = CollectSettings(
        datasets=(DatasetFile(tmp_path / "rows.jsonl"),),
        output=tmp_path / "out.jsonl",
        limit=3,
        responses_create_params={"temperature": 0.5},
        num_repeats_add_seed=True,
        max_failed_fraction=0.1,
    )
    plan = settings.plan({})
    assert (plan.limit, plan.add_seed) == (3, True)
    assert plan.overrides == {"temperature": 0.5}
    recorded = settings.to_json()
    assert recorded["datasets"] == [str(tmp_path / "rows.jsonl")]
    assert recorded["max_failed_fraction"] == 0.1
    assert "tags" not in recorded
    assert settings_of(tmp_path, tags=["nightly"]).to_json()["tags"] == ["nightly"]


def settings_of(folder: Path, **options: Any) -> CollectSettings:
    return CollectSettings(
        datasets=(DatasetFile(folder / "rows.jsonl"),), output=folder / "out.jsonl", **options
    )


def test_the_legacy_mode_sends_every_row_to_one_environment_server(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, environment_routing_mode="legacy", environment_server_name="env")
    assert settings.plan({}).routing.find_agent({"agent_ref": {"name": "a"}}, None) == "env"


@pytest.mark.parametrize(
    "options", [{"environment_routing_mode": "legacy"}, {"environment_server_name": "env"}]
)
def test_the_legacy_mode_and_its_server_need_each_other(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="need each other"):
        settings_of(tmp_path, **options)


def test_the_skills_of_a_run_are_read_before_it_starts(tmp_path: Path) -> None:
    skill = tmp_path / "skills" / "search" / "SKILL.md"
    with pytest.raises(ConfigError, match="no folder of skills"):
        settings_of(tmp_path, skills=SkillsKeys(path=str(tmp_path / "skills"))).plan({})
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: search\n---\nSearch first.\n")
    reference = settings_of(tmp_path, skills=SkillsKeys(path=str(tmp_path / "skills"))).plan({}).skills_ref
    assert reference is not None
    assert [each["name"] for each in reference["skills"]] == ["search"]
