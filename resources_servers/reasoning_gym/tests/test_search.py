"""No short answer wins the tasks of a dataset whatever they ask, and the right ones still score 1."""

from __future__ import annotations

import json
from typing import Any

import pytest

from resources_servers.reasoning_gym import search
from resources_servers.reasoning_gym.corrected_scorers import CORRECTED_SCORERS
from resources_servers.reasoning_gym.prepare import generate_rows
from resources_servers.reasoning_gym.scoring import make_dataset, score_answer, task_names
from resources_servers.reasoning_gym.search import main, search_task

FEW = (
    "0",
    "-0.0",
    "1",
    "1e-999",
    "0e0",
    "nan",
    "nan+nanj",
    "inf",
    "True",
    "None",
    "[]",
    "{}",
    "x",
    "(",
    "no solution",
)
"""Answers of every kind; `search.py` tries all of `SHORT_ANSWERS`, which takes minutes."""


@pytest.mark.parametrize("task", task_names())
def test_no_short_answer_wins_a_dataset(task: str) -> None:
    assert search_task(task, size=8, seed=4, answers=FEW) == []


@pytest.mark.parametrize("task", CORRECTED_SCORERS)
def test_no_short_answer_at_all_wins_a_corrected_dataset(task: str) -> None:
    assert search_task(task, size=20, seed=5) == []


def use_library_scorer(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    library = make_dataset(task, {"size": 1, "seed": 0}).score_answer

    def score_by_library(entry: str, answer: str) -> float:
        try:
            return float(library(answer, json.loads(entry)))
        except OverflowError:
            return 0.0

    monkeypatch.setattr(search, "_score", score_by_library)


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        ("coin_flip", "0"),
        ("complex_arithmetic", "nan"),
        ("game_of_life_halting", "x"),
        ("rectangle_count", "7"),
    ],
)
def test_the_search_finds_the_scorers_of_the_library(
    task: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_library_scorer(task, monkeypatch)
    assert answer in {lucky.answer for lucky in search_task(task, size=20, seed=5)}


def rows_of(task: str, count: int) -> list[dict[str, Any]]:
    return list(generate_rows(task, size=count, seed=9, config={}))


def score(row: dict[str, Any], answer: str) -> float:
    entry = {key: row[key] for key in ("question", "answer", "metadata")}
    return score_answer(json.dumps(entry), "{}", answer)


@pytest.mark.parametrize("task", CORRECTED_SCORERS)
def test_right_answers_of_a_corrected_dataset_score_1(task: str) -> None:
    for row in rows_of(task, 20):
        assert score(row, row["answer"]) == score(row, f" {row['answer']} ") == 1.0


def test_a_probability_may_be_rounded_or_a_fraction() -> None:
    row = next(row for row in rows_of("coin_flip", 20) if len(row["answer"]) > 7)
    rational = row["metadata"]["rational"]
    assert score(row, f"{rational['numerator']}/{rational['denominator']}") == 1.0
    assert score(row, f"{float(row['answer']):.5f}") == 1.0
    for wrong in (row["answer"][:3], "0", "0.0", "1e-9", "1/0", "nan", "-" + row["answer"]):
        assert score(row, wrong) == 0.0


def test_roots_are_plain_decimals_and_no_roots_are_said_so() -> None:
    row = next(row for row in rows_of("polynomial_equations", 20) if "," in row["answer"])
    assert score(row, row["answer"].replace(", ", " ,  ")) == 1.0
    for wrong in (f"x, {row['answer']}", f"{row['answer']}, nan", "0e0", "1e-999", ",", "_"):
        assert score(row, wrong) == 0.0
    rootless = {**row, "answer": ""}
    for right in ('""', "''", "No real solutions.", "none"):
        assert score(rootless, right) == 1.0
    for wrong in ("x", "1", "-", "banana", "0.5, x", "\\", "1e-999", "nan"):
        assert score(rootless, wrong) == 0.0


def test_the_command_lists_what_it_finds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--task", "coin_flip", "--size", "5"]
    assert main(options) == 0
    use_library_scorer("coin_flip", monkeypatch)
    assert main(options) == 1
    assert "coin_flip: '0" in capsys.readouterr().out
