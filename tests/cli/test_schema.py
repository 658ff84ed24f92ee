from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from nemo_gym.authoring.scaffold import scaffold
from nemo_gym.cli import schema
from nemo_gym.rows.fields import Form
from nemo_gym.rows.schema import build_row_schema

TASK_DATA = "from pydantic import BaseModel\nclass TaskData(BaseModel):\n    question: str\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    scaffold("resources_servers/mine", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path / "resources_servers" / "mine"


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        schema.main(["+entrypoint=resources_servers/mine"])
    captured = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, captured.out, captured.err


def test_the_schema_is_that_of_the_declared_model(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "task_data.py").write_text(TASK_DATA)
    code, out, _ = printed(capsys)
    assert code == 0
    assert json.loads(out)["required"] == ["question"]


def test_without_a_model_the_fields_of_an_example_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "data").mkdir(exist_ok=True)
    row = {
        "responses_create_params": {"input": "q"},
        "agent_ref": {"name": "a"},
        "question": "q",
        "expected_answer": "1",
    }
    (folder / "data" / "example.jsonl").write_text(json.dumps(row) + "\n")
    code, _, err = printed(capsys)
    assert code == 2
    assert "whose rows have question, expected_answer." in " ".join(err.split())


@pytest.mark.parametrize(
    ("source", "reason"), [(None, "has no task_data.py"), ("x = 1\n", "has no attribute 'TaskData'")]
)
def test_an_environment_without_a_model_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], source: str | None, reason: str
) -> None:
    if source is not None:
        (folder / "task_data.py").write_text(source)
    code, _, err = printed(capsys)
    assert code == 2
    assert reason in err


@pytest.mark.parametrize("form", Form)
def test_the_schema_of_the_gyms_rows(form: Form, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        schema.main([f"+row={form}"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out) == build_row_schema(form)


@pytest.mark.parametrize("line", [[], ["+row=task", "+entrypoint=resources_servers/mcqa"]])
def test_one_of_the_two_is_chosen(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        schema.main(line)
    assert ended.value.code == 2
    assert "+row=<task, scored, failure>" in capsys.readouterr().err
