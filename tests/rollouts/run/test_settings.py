"""The settings of a collection."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.plan.dataset import DatasetFile
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
    assert (settings.plan.limit, settings.plan.add_seed) == (3, True)
    assert settings.plan.overrides == {"temperature": 0.5}
    recorded = settings.to_json()
    assert recorded["datasets"] == [str(tmp_path / "rows.jsonl")]
    assert recorded["max_failed_fraction"] == 0.1
