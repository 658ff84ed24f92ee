"""A sample of HumanEval; `selftest.py` runs all of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from resources_servers.code_gen import prepare
from resources_servers.code_gen.selftest import BODIES, score_all
from resources_servers.code_gen.tests.attempts import SHARED, make_server, rows_of

HUMANEVAL = SHARED / "humaneval" / "HumanEval.jsonl"
SAMPLE = slice(2, None, 12)
"""Every twelfth task, and tasks 32, 38 and 50, whose tests use helpers of the prompt."""


async def test_canonical_solutions_score_1_and_empty_ones_0() -> None:
    problems = rows_of(HUMANEVAL)
    sample = [*problems[SAMPLE], problems[32], problems[50]]
    results = await score_all(make_server(), sample)
    assert len(results) == len(sample) * len(BODIES)
    assert [scored for scored in results if not scored.is_right] == []


def test_the_command_converts_every_row(tmp_path: Path) -> None:
    problems = rows_of(HUMANEVAL)
    target = tmp_path / "tasks.jsonl"
    command = [sys.executable, prepare.__file__, "--input", str(HUMANEVAL), "--output", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{len(problems)} tasks in {target}\n"
    tasks = [json.loads(line) for line in target.read_text().splitlines()]
    assert [task["verifier_metadata"]["task_id"] for task in tasks] == [row["task_id"] for row in problems]
    assert problems[0]["prompt"].strip() in tasks[0]["responses_create_params"]["input"][0]["content"]


@pytest.mark.parametrize("bad", ['{"task_id": "x", "prompt": 3}', "{"])
def test_a_bad_row_is_named_by_its_line(tmp_path: Path, bad: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "rows.jsonl"
    good = {"task_id": "t", "prompt": "p", "entry_point": "e", "test": "t"}
    source.write_text(json.dumps(good) + "\n" + bad + "\n")
    with pytest.raises(SystemExit) as end:
        prepare.main(["--input", str(source), "--output", str(tmp_path / "tasks.jsonl")])
    assert end.value.code == 2
    assert f"{source}:2: " in capsys.readouterr().err
    assert not (tmp_path / "tasks.jsonl").exists()
