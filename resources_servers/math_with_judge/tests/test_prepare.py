from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from resources_servers.math_with_judge import prepare

GSM8K_ROW = {"question": "How many? ", "answer": "She has 2*600=<<2*600=1200>>1,200.\n#### 1,200"}


def test_a_gsm8k_row_becomes_a_task_row() -> None:
    row = prepare.task_row(GSM8K_ROW)
    assert (row["question"], row["expected_answer"]) == ("How many?", "1200")
    (prompt,) = row["responses_create_params"]["input"]
    assert prompt["role"] == "user"
    assert prompt["content"].endswith("inside \\boxed{}.\n\nHow many?")


def test_braces_in_a_question_are_left_alone() -> None:
    row = prepare.task_row({"question": "Is {x} in S?", "answer": "#### 1"})
    assert row["responses_create_params"]["input"][0]["content"].endswith("Is {x} in S?")


def test_the_command_converts_a_file(tmp_path: Path) -> None:
    source, target = tmp_path / "test.jsonl", tmp_path / "tasks.jsonl"
    source.write_text(json.dumps(GSM8K_ROW) + "\n" + json.dumps(GSM8K_ROW) + "\n")
    command = [sys.executable, prepare.__file__, "--input", str(source), "--output", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"2 tasks in {target}\n"
    assert [json.loads(line) for line in target.read_text().splitlines()] == [prepare.task_row(GSM8K_ROW)] * 2


@pytest.mark.parametrize("bad", ['{"question": "q", "answer": "no mark"}', '{"question": "q"}', "{"])
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "test.jsonl"
    source.write_text(json.dumps(GSM8K_ROW) + "\n" + bad + "\n")
    with pytest.raises(SystemExit) as end:
        prepare.main(["--input", str(source), "--output", str(tmp_path / "tasks.jsonl")])
    assert end.value.code == 2
    assert f"{source}:2: " in capsys.readouterr().err
    assert not (tmp_path / "tasks.jsonl").exists()
