from __future__ import annotations

from pathlib import Path

import pytest

from nemo_gym.audit.task_rows import list_environments, read_rows
from nemo_gym.config.loading import load
from nemo_gym.failures import ConfigError

MODEL = ["++policy_base_url=http://127.0.0.1:1/v1", "++policy_api_key=k", "++policy_model_name=m"]


def test_the_environments_of_the_agents_are_found_with_their_models() -> None:
    paths = ",".join(f"resources_servers/{name}/configs/{name}.yaml" for name in ("mcqa", "math_with_judge"))
    model = "responses_api_models/vllm_model/configs/vllm_model.yaml"
    config = load([f"+config_paths=[{paths},{model}]", *MODEL])
    found = {environment.server: environment for environment in list_environments(config)}
    assert {name: sorted(each.models) for name, each in found.items()} == {
        "mcqa": [],
        "math_with_judge": ["policy_model"],
    }
    assert len(read_rows(found["mcqa"].files, 4)) == 4


def test_nothing_to_audit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no environment to audit"):
        list_environments(load([]))
    (tmp_path / "rows.jsonl").write_text("")
    with pytest.raises(ConfigError, match="no task rows"):
        read_rows([tmp_path / "rows.jsonl"], None)
