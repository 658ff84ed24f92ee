"""The schema of an environment's task rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nemo_gym.datasets.checking import task_faults
from nemo_gym.failures import ConfigError
from nemo_gym.resources.task_schemas import load_task_data_schema, normalize_task_fields

BASE = """
from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class TaskData(BaseModel):
    model_config = ConfigDict(extra="allow")
    expected_answer: str
"""
HEIR = """
from resources_servers.math.task_data import TaskData as MathTask


class TaskData(MathTask):
    level: int = 1
"""


def write_schema(root: Path, name: str, text: str) -> Path:
    folder = root / "resources_servers" / name
    folder.mkdir(parents=True)
    (folder / "task_data.py").write_text(text)
    return folder


def test_an_environment_without_the_module_has_no_schema(tmp_path: Path) -> None:
    assert load_task_data_schema(tmp_path) is None


def test_faults_name_the_field_wherever_the_row_has_it(tmp_path: Path) -> None:
    schema = load_task_data_schema(write_schema(tmp_path, "math", BASE))
    assert schema is not None
    row: dict[str, Any] = {"responses_create_params": {"input": "1+1"}, "agent_ref": {"name": "a"}}
    assert list(task_faults(schema, {**row, "expected_answer": "2", "level": 3})) == []
    assert list(task_faults(schema, {**row, "verifier_metadata": {"expected_answer": "2"}})) == []
    assert list(task_faults(schema, {**row, "task_data": {"expected_answer": "2"}})) == []
    (missing,) = task_faults(schema, row)
    assert missing.field == "expected_answer"
    (wrong,) = task_faults(schema, {**row, "verifier_metadata": {"expected_answer": 2}})
    assert (wrong.field, wrong.message) == ("expected_answer", "Input should be a valid string")


def test_a_schema_may_inherit_from_that_of_another_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_schema(tmp_path, "math", BASE)
    heir = write_schema(tmp_path, "physics", HEIR)
    monkeypatch.setenv("NEMO_GYM_EXTRA_ROOTS", str(tmp_path))
    schema = load_task_data_schema(heir)
    assert schema is not None
    assert [fault.field for fault in task_faults(schema, {"level": "high"})] == ["expected_answer", "level"]


@pytest.mark.parametrize("text", ["import a_package_that_is_not_there", "raise RuntimeError", "x = 1"])
def test_a_module_without_a_schema_is_refused_by_name(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"task_data\.py gives no schema"):
        load_task_data_schema(write_schema(tmp_path, "broken", text))


def test_a_field_with_two_values_is_a_conflict() -> None:
    row = {
        "answer": 1,
        "_ng_task_index": 0,
        "verifier_metadata": {"answer": 2, "unit": "m"},
        "task_data": {"answer": 1},
    }
    assert normalize_task_fields(row) == ({"answer": 1, "unit": "m"}, ["answer"])
