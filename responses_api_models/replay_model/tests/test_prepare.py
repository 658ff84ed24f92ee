"""prepare.py: recordings from answers that were recorded elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from responses_api_models.replay_model.app import ReplayModel
from responses_api_models.replay_model.prepare import main

QUESTIONS = ["What is 1 + 1?", 'Who said "yes" – and to whom?']


def write(path: Path, rows: list[Any]) -> Path:
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def task(question: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": f"Q: {question}\nA:"}]
    return {"responses_create_params": {"input": messages}, "expected_answer": "2"}


def prepare(folder: Path, tasks: list[Any], answers: list[Any], *options: str) -> None:
    given = {
        "--tasks": write(folder / "tasks.jsonl", tasks),
        "--answers": write(folder / "answers.jsonl", answers),
        "--answer-field": "solution",
        "--output": folder / "recordings.jsonl",
    }
    main([*(str(word) for pair in given.items() for word in pair), *options])


async def test_every_task_gets_the_answer_of_its_row(tmp_path: Path) -> None:
    tasks = [task(question) for question in QUESTIONS]
    answers = [{"question": question, "solution": f"It is {i}."} for i, question in enumerate(QUESTIONS)]
    prepare(tmp_path, tasks, answers, "--question-field", "question")
    server = ReplayModel.standalone(recordings=[str(tmp_path / "recordings.jsonl")])
    assert isinstance(server, ReplayModel)
    for number, row in enumerate(tasks):
        response = await server.respond(row["responses_create_params"])
        assert response["output"][0]["content"][0]["text"] == f"It is {number}."


@pytest.mark.parametrize(
    ("tasks", "answers", "options", "told"),
    [
        ([task("a"), task("b")], [{"solution": "x"}], (), "answers.jsonl has only 1 rows"),
        ([task("a")], [{"solution": "x"}] * 2, (), "tasks.jsonl has only 1 rows"),
        ([task("a")], [{"answer": "x"}], (), "row 1 has no text under 'solution'"),
        ([{"question": "a"}], [{"solution": "x"}], (), "no responses_create_params.input"),
        (
            [task("a")],
            [{"question": "b?", "solution": "x"}],
            ("--question-field", "question"),
            "doesn't ask the 'question'",
        ),
        ([5], [{"solution": "x"}], (), "tasks.jsonl:1: the row must be a JSON object"),
    ],
)
def test_rows_that_do_not_fit_are_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    tasks: list[Any],
    answers: list[Any],
    options: tuple[str, ...],
    told: str,
) -> None:
    with pytest.raises(SystemExit) as end:
        prepare(tmp_path, tasks, answers, *options)
    assert end.value.code == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "recordings.jsonl").exists()
