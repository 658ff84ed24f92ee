"""Build recordings from answers of another source: one row of answers for each row of tasks.

    python responses_api_models/replay_model/prepare.py --tasks tasks.jsonl --answers answers.jsonl \\
        --answer-field solution --output recordings.jsonl

Both files have the same rows in the same order; `--question-field question` checks that. Each task needs its
`responses_create_params.input`; if a prompt template creates it, use the run's `*_materialized_inputs.jsonl`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.datasets.checking import read_rows
from nemo_gym.datasets.making import bad_row, new_parser, write_rows
from nemo_gym.rows.parts import read_params


def recordings_of(
    tasks: Path, answers: Path, answer_field: str, question_field: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a recording for each pair of rows. Raises `ConfigError` that names the first mismatched row."""
    for number, (task, answer) in enumerate(zip_longest(_rows(tasks), _rows(answers)), start=1):
        if task is None or answer is None:
            shorter = tasks if task is None else answers
            raise bad_row(f"{shorter} has only {number - 1} rows, the other file has more")
        params = read_params(task)
        if not params.get("input"):
            raise bad_row(f"{tasks}: row {number} has no responses_create_params.input")
        text = answer.get(answer_field)
        if not isinstance(text, str):
            raise bad_row(f"{answers}: row {number} has no text under {answer_field!r}")
        if question_field is not None and not _asks(params, answer.get(question_field)):
            raise bad_row(
                f"row {number} of {tasks} doesn't ask the {question_field!r} of row {number} of {answers}"
            )
        yield {"request": params, "answer": text}


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    return (row for _, row in read_rows(path))


def _asks(params: Mapping[str, Any], question: object) -> bool:
    written = orjson.dumps(params["input"]).decode()
    return isinstance(question, str) and orjson.dumps(question.strip()).decode()[1:-1] in written


def main(arguments: list[str] | None = None) -> None:
    parser = new_parser("Make recordings for replay_model.")
    parser.add_argument("--tasks", type=Path, required=True, help="JSONL of task rows")
    parser.add_argument("--answers", type=Path, required=True, help="JSONL of answers, in the tasks' order")
    parser.add_argument(
        "--answer-field", required=True, help="the field of an answer row that holds its text"
    )
    parser.add_argument("--question-field", help="a field of an answer row that its task has to contain")
    parser.add_argument("--output", type=Path, required=True, help="JSONL of recordings to write")
    asked = parser.parse_args(arguments)
    recordings = recordings_of(asked.tasks, asked.answers, asked.answer_field, asked.question_field)
    write_rows(recordings, asked.output, noun="recordings")


if __name__ == "__main__":
    main()
