r"""The answer key: right and wrong answers by question, read from a JSONL file.

A line has one of two forms:

- `{"match": "capital of France", "answer": "It is Paris.", "wrong": "It is Rome."}` applies to every user message
  that contains `match`. The reply is `answer` or `wrong` verbatim; without `wrong`, a wrong answer is generated.
- A task row: its last user message is the question, `expected_answer` (or `answer`) the answer inside a sentence
  (`form`), by default `The answer is \boxed{...}.` A row without messages but with a `question` or `problem` applies
  to every user message that contains it.

The lookup tries the whole question first, in constant time, then each `match` in the file's order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from nemo_gym.failures import ConfigError
from nemo_gym.mock_engine.conversation import last_user_text
from nemo_gym.rows.forms import AnyRow
from nemo_gym.rows.parts import read_params

DEFAULT_FORM = r"The answer is \boxed{{answer}}."
"""The sentence around a task row's answer, which replaces `{answer}`."""

_NUMBER = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class Entry:
    """The right and the wrong reply to a question."""

    answer: str
    wrong: str


@dataclass(frozen=True, slots=True)
class AnswerKey:
    """Entries by the whole question, and by a part of it."""

    by_question: Mapping[str, Entry]
    by_part: tuple[tuple[str, Entry], ...] = ()

    def find(self, question: str) -> Entry | None:
        entry = self.by_question.get(question)
        if entry is not None:
            return entry
        return next((entry for part, entry in self.by_part if part in question), None)


def read_answers(path: Path, form: str = DEFAULT_FORM) -> AnswerKey:
    """Read the key from a JSONL file. Raises ConfigError with every unusable line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(
            f"Can't read the answers file {path}: {error.strerror}.", code="answers_unreadable"
        ) from error
    return answer_key(lines, form, source=str(path))


def answer_key(
    lines: Iterable[bytes | str], form: str = DEFAULT_FORM, *, source: str = "answers"
) -> AnswerKey:
    """Read the key from JSONL lines; see `read_answers`."""
    by_question: dict[str, Entry] = {}
    by_part: list[tuple[str, Entry]] = []
    problems: list[str] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = _read_row(orjson.loads(line), form)
        except (orjson.JSONDecodeError, ValueError) as error:
            problems.append(f"line {number}: {error}")
            continue
        if row.is_part:
            by_part.append((row.key, row.entry))
        else:
            by_question[row.key] = row.entry
    if problems:
        raise ConfigError(
            f"{source}: " + "; ".join(problems),
            code="answers_invalid",
            remedy='A line is {"match": …, "answer": …} or a task row with an `expected_answer`.',
        )
    return AnswerKey(by_question, tuple(by_part))


class _Row(NamedTuple):
    key: str
    """The question, or a part of it."""
    is_part: bool
    entry: Entry


def _read_row(row: Any, form: str) -> _Row:
    """Read one line. Raises ValueError that names the missing field."""
    if not isinstance(row, dict):
        raise ValueError("it is not a JSON object")
    answer = row.get("expected_answer", row.get("answer"))
    if answer is None:
        raise ValueError("it has neither `expected_answer` nor `answer`")
    wrong = row.get("wrong", wrong_answer(answer))
    if isinstance(row.get("match"), str):
        return _Row(row["match"], True, Entry(_write_text(answer), _write_text(wrong)))
    said = Entry(*(form.replace("{answer}", _write_text(value)) for value in (answer, wrong)))
    question = _read_question(row)
    if question:
        return _Row(question, False, said)
    for name in ("question", "problem"):
        if isinstance(row.get(name), str):
            return _Row(row[name], True, said)
    raise ValueError(
        "it has no user message in `responses_create_params.input`, no `match` and no `question`"
    )


def _read_question(row: AnyRow) -> str:
    """Return the user's question in a task row, or an empty string for a row without messages."""
    asked = read_params(row).get("input")
    if isinstance(asked, list):
        return last_user_text([item for item in asked if isinstance(item, Mapping)])
    return asked if isinstance(asked, str) else ""


def _write_text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def wrong_answer(answer: object) -> str:
    """Return a wrong answer near the right one: the last number plus one, the next letter, or a negation."""
    text = str(answer)
    if len(text) == 1 and text.isalpha():
        return "A" if text in "zZ" else chr(ord(text) + 1)
    numbers = list(_NUMBER.finditer(text))
    if numbers:
        last = numbers[-1]
        return f"{text[: last.start()]}{int(last[0]) + 1}{text[last.end() :]}"
    return f"not {text}" if text else "nothing"
