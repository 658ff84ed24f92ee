"""Recordings from answers that somebody recorded elsewhere: one row of answers to each row of tasks.

    python responses_api_models/replay_model/prepare.py --tasks tasks.jsonl --answers answers.jsonl \\
        --answer-field solution --output recordings.jsonl

Both files have the same rows in the same order; `--question-field question` makes sure of it. A task needs its
`responses_create_params.input`: where a prompt template makes it, take the run's `*_materialized_inputs.jsonl`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.rollouts.output.output import write_atomically
from nemo_gym.rollouts.plan.dataset import read_lines

BAD_USAGE = 2


def recordings_of(
    tasks: Path, answers: Path, answer_field: str, question_field: str | None = None
) -> Iterator[dict[str, Any]]:
    """A recording for each pair of rows. Raises `ConfigError` that names the rows that don't fit together."""
    for number, (task, answer) in enumerate(zip_longest(_rows(tasks), _rows(answers)), start=1):
        if task is None or answer is None:
            shorter = tasks if task is None else answers
            raise _misfit(f"{shorter} has only {number - 1} rows, the other file has more")
        params = task.get("responses_create_params")
        if not isinstance(params, dict) or not params.get("input"):
            raise _misfit(f"{tasks}: row {number} has no responses_create_params.input")
        text = answer.get(answer_field)
        if not isinstance(text, str):
            raise _misfit(f"{answers}: row {number} has no text under {answer_field!r}")
        if question_field is not None and not _asks(params, answer.get(question_field)):
            raise _misfit(
                f"row {number} of {tasks} doesn't ask the {question_field!r} of row {number} of {answers}"
            )
        yield {"request": params, "answer": text}


def _asks(params: dict[str, Any], question: object) -> bool:
    written = orjson.dumps(params["input"]).decode()
    return isinstance(question, str) and orjson.dumps(question.strip()).decode()[1:-1] in written


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for number, content in read_lines(path):
        try:
            row = orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise _misfit(f"{path}:{number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise _misfit(f"{path}:{number}: not a JSON object")
        yield row


def _misfit(message: str) -> ConfigError:
    return ConfigError(message, code="invalid_recording")


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0, or 2 with the reason on standard error."""
    parser = argparse.ArgumentParser(description="Make recordings for replay_model.")
    parser.add_argument("--tasks", type=Path, required=True, help="JSONL of task rows")
    parser.add_argument("--answers", type=Path, required=True, help="JSONL of answers, in the tasks' order")
    parser.add_argument(
        "--answer-field", required=True, help="the field of an answer row that holds its text"
    )
    parser.add_argument("--question-field", help="a field of an answer row that its task has to contain")
    parser.add_argument("--output", type=Path, required=True, help="JSONL of recordings to write")
    asked = parser.parse_args(arguments)
    try:
        recordings = list(recordings_of(asked.tasks, asked.answers, asked.answer_field, asked.question_field))
        write_atomically(asked.output, b"".join(orjson.dumps(row) + b"\n" for row in recordings))
    except (ConfigError, OSError) as error:
        print(f"prepare.py: {error}", file=sys.stderr)
        return BAD_USAGE
    print(f"{len(recordings)} recordings in {asked.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
