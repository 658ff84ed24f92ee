from __future__ import annotations

import json
from pathlib import Path

import pytest

from nemo_gym.audit.task_rows import list_environments, read_rows
from nemo_gym.config.loading import load
from nemo_gym.config.problems import ConfigErrors
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


def test_all_rows_with_a_wrong_type_are_refused_at_once(tmp_path: Path) -> None:
    types = ["json", None, "text", "json", "number", "Text"]
    rows = [{"expected_answer": "x", "answer_type": each} for each in types]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(ConfigErrors) as caught:
        read_rows([file], None)
    assert [str(problem.where).removeprefix(str(file)) for problem in caught.value.problems] == [
        ":1",
        ":5",
    ]
    assert "(and so in 1 more rows)" in caught.value.problems[0].message


def test_a_line_that_is_no_row_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n{"a": \n')
    with pytest.raises(ConfigError, match=r"rows\.jsonl:2: the row"):
        read_rows([tmp_path / "rows.jsonl"], None)
