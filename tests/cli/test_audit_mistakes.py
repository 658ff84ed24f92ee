"""The likeliest mistakes with `gym audit`: each is told with its place and its remedy, before anything starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nemo_gym import cli
from tests.audit.planted_verifiers import NUMBERS
from tests.audit.tool_task_folders import write_rink

SCORED = {**NUMBERS[0], "response": {"output": []}, "reward": 1.0, "grade": "good"}
MISTAKES: list[tuple[str, str]] = [
    ("mcqq", "Did you mean 'mcqa'"),
    ("empty", "empty has no tool tasks"),
    ("tasks empty", "A folder is audited alone, not with 'empty'"),
    ("broken_tasks", "gold.json"),
    ("scored.jsonl scored.jsonl", "One file of rollouts is audited at a time"),
    ("absent.jsonl", "absent.jsonl"),
    ("rows.jsonl", "it has neither reward nor response"),
    ("scored.jsonl --label correct", "no scored row has `correct`"),
    ("scored.jsonl --label grade", "`grade` is 'good'"),
    ("mcqa --label grade", "no file of them is named"),
    ("tasks --baseline absent.json", "absent.json cannot be read: No such file"),
    ("tasks --baseline rows.jsonl", "rows.jsonl is not a card"),
    ("tasks --fail-above 2", "less than or equal to 1"),
    ("tasks --fail-above much", "much"),
    ("tasks --max-probes 0", "greater than or equal to 1"),
    ("tasks --fail-over 0", "--fail-above"),
    ("tasks -o earlier", "has an earlier audit"),
    ("tasks -o earlier --resume --seed 7", "has an audit with another seed"),
    ("mcqa -i absent.jsonl", "absent.jsonl"),
    ("mcqa -i torn.jsonl", "torn.jsonl:2"),
    ("mcqa -i nothing.jsonl", "there are no task rows"),
    ("mcqa -i mistyped.jsonl", "`answer_type` is 'number', and the expected answer is 'seven'"),
    ("mcqa -i scripted.jsonl", "scripted_gold.yaml is not a list of scripts"),
    ("mcqa --limit 0", "greater than or equal to 1"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("mistakes")
    (root / "empty").mkdir()
    write_rink(root / "tasks" / "rink")
    (write_rink(root / "broken_tasks" / "rink") / "gold.json").write_text("[[")
    contents: dict[str, Any] = {
        "rows": [NUMBERS[0]], "scored": [SCORED], "nothing": [], "scripted": [NUMBERS[0]],
        "mistyped": [{"expected_answer": "seven", "answer_type": "number"}],
    }  # fmt: skip
    for name, rows in contents.items():
        (root / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (root / "torn.jsonl").write_text(json.dumps(NUMBERS[0]) + '\n{"responses_create')
    (root / "scripted_gold.yaml").write_text("match: everything")
    assert audit(root, "tasks -o earlier") == 0
    return root


def audit(folder: Path, line: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(SystemExit) as ended:
            cli.main(["audit", *line.split()])
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(("line", "message"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_told(line: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audit(folder, line) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""
