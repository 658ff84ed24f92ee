"""Score answers with the library's scorers. Runs in worker processes: importing `reasoning_gym` takes seconds.

Each row is validated before its answer is scored, because most scorers return 0 for an unreadable row, which looks like
a wrong answer: the row's own answer must score 1, or, for tasks without one, a harmless probe must score more than 0.
An invalid row raises `InputError` with the name of the field.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from nemo_gym.failures import InputError, VerifierError
from resources_servers.reasoning_gym.corrected_scorers import CORRECTED_SCORERS, Entry, Scorer
from resources_servers.reasoning_gym.guards import (
    EXPRESSION_TASKS,
    UNSOLVED_INTEGRAL,
    is_plain_expression,
)

LIBRARY = "resources_servers.reasoning_gym.library"
"""The module that a worker imports before the time limit of a scorer starts."""

MINUS = "\N{MINUS SIGN}"
FULL_MARKS = 0.999
ROUNDING = 1e-9

PROBES: Mapping[str, Callable[[dict[str, Any]], str]] = {
    "boxnet": lambda metadata: "[]",
    "graph_color": lambda metadata: "{}",
    "propositional_logic": lambda metadata: str(metadata["variables"][0]),
    "rubiks_cube": lambda metadata: "",
    "rush_hour": lambda metadata: " ",
}
"""For tasks without an answer in the row: a probe that scores above 0 for every readable row."""


def score_answer(entry_text: str, config_text: str, answer: str | None) -> float:
    """Return the score, 0 to 1, of `answer` to the row `entry_text`; None scores 0.

    `entry_text` is the row's `Entry` as JSON; `config_text` holds the options of its dataset as a JSON object.
    Raises `InputError` for an invalid row.
    """
    check_row(entry_text, config_text)
    if answer is None:
        return 0.0
    entry = read_entry(entry_text)
    if MINUS not in (entry["answer"] or ""):
        answer = answer.replace(MINUS, "-")  # the library reads numbers with a hyphen only
    task = task_of(entry)
    if task in EXPRESSION_TASKS and not is_plain_expression(answer):
        answer = ""  # scored like an answer that the library cannot parse
    try:
        score = _run(_scorer_of(task, config_text), answer, entry)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - the row is valid, so an answer that the scorer fails on is wrong
        return 0.0
    if not (math.isfinite(score) and -ROUNDING <= score <= 1.0 + ROUNDING):
        raise VerifierError(
            f"the scorer of {task!r} returned {score}, which is outside 0 to 1", code="score_out_of_range"
        )
    return min(max(score, 0.0), 1.0)


@lru_cache(maxsize=4096)
def check_row(entry_text: str, config_text: str) -> None:
    """Raise an `InputError` that names the invalid field, unless the row can be scored."""
    entry = read_entry(entry_text)
    task = task_of(entry)
    scorer = _scorer_of(task, config_text)
    own_answer = entry["answer"]
    if own_answer is None and task not in PROBES:
        raise _bad_row(f"a row of {task!r} has no answer", "answer")
    if task in EXPRESSION_TASKS and not is_plain_expression(own_answer, more_functions=UNSOLVED_INTEGRAL):
        raise _bad_row(
            f"the answer of a row of {task!r} is not an arithmetic expression: {own_answer!r}", "answer"
        )
    try:
        score = _run(scorer, PROBES[task](entry["metadata"]) if own_answer is None else own_answer, entry)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise _bad_row(
            f"the scorer of {task!r} cannot read the row's metadata ({reason})", "metadata"
        ) from error
    if own_answer is None and score <= 0.0:
        raise _bad_row(f"the scorer of {task!r} cannot read the row's metadata", "metadata")
    if own_answer is not None and score < FULL_MARKS:
        raise _bad_row(
            f"the row's own answer, {own_answer!r}, scores {score} instead of 1 in {task!r}", "answer"
        )


def read_entry(entry_text: str) -> Entry:
    """Parse an entry. The ARC scorers compare with tuples, which JSON lacks."""
    entry: Entry = json.loads(entry_text)
    if entry["metadata"].get("source_dataset") in ("arc_agi", "rearc"):
        entry["metadata"]["output"] = _as_tuples(entry["metadata"].get("output"))
    return entry


def task_of(entry: Entry) -> str:
    """Return the name of the library's dataset that produced the row."""
    task = entry["metadata"].get("source_dataset")
    if not isinstance(task, str):
        raise _bad_row("the row does not name its dataset", "metadata.source_dataset")
    return task


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Suppress the warnings of the library's dependencies and the output of its scorers."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def task_names() -> tuple[str, ...]:
    """Return the names of all datasets."""
    from resources_servers.reasoning_gym.library import TASK_NAMES

    return TASK_NAMES


def make_dataset(task: str, config: Mapping[str, Any]) -> Any:
    """Return the library's dataset. Raises `InputError` for an unknown name or option."""
    from resources_servers.reasoning_gym.library import create_dataset

    if task not in task_names():
        near = difflib.get_close_matches(task, task_names(), n=3)
        remedy = f"Did you mean {' or '.join(near)}?" if near else "`prepare.py --list` lists all datasets."
        raise _bad_row(f"reasoning_gym has no dataset {task!r}", "metadata.source_dataset", remedy)
    try:
        with quietly():
            return create_dataset(task, **config)
    except (TypeError, ValueError, AssertionError) as error:
        raise _bad_row(f"{task!r} rejects the options {dict(config)}: {error}", "dataset_config") from error


@lru_cache(maxsize=256)
def _scorer_of(task: str, config_text: str) -> Scorer:
    dataset = make_dataset(task, json.loads(config_text))
    library: Scorer = dataset.score_answer
    corrected = CORRECTED_SCORERS.get(task)
    return library if corrected is None else lambda answer, entry: corrected(answer, entry, library)


def _run(scorer: Scorer, answer: str, entry: Entry) -> float:
    with quietly():
        return float(scorer(answer, entry))


def _as_tuples(board: Any) -> Any:
    return tuple(_as_tuples(row) for row in board) if isinstance(board, list) else board


def _bad_row(message: str, param: str, remedy: str | None = None) -> InputError:
    return InputError(message, code="bad_row", param=param, remedy=remedy)
