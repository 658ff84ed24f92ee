"""No answer wins the tasks of a dataset without knowing them, and the right ones still score 1."""

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
        except (ArithmeticError, ValueError, TypeError, AttributeError):
            return 0.0

    monkeypatch.setattr(search, "_score", score_by_library)


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        ("coin_flip", "0"),
        ("complex_arithmetic", "nan"),
        ("game_of_life_halting", "x"),
        ("rectangle_count", "7"),
        ("countdown", "number 0 of x/x, 4 others times 0"),
        ("game_of_life", "arrays of 0"),
        ("knights_knaves", "choice 1 in quotation -1"),
        ("mini_sudoku", "board with 1 for blanks"),
        ("prime_factorization", "number 0"),
        ("propositional_logic", "item -1"),
        ("puzzle24", "4*6*1*1"),
        ("sudoku", "board with 5 for blanks"),
        ("time_intervals", "06:00:00"),
    ],
)
def test_the_search_finds_the_scorers_of_the_library(
    task: str, answer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_library_scorer(task, monkeypatch)
    found = search_task(task, size=20, seed=5, answers=(answer,))
    assert answer in {lucky.answer for lucky in found}


def rows_of(task: str, count: int) -> list[dict[str, Any]]:
    return list(generate_rows(task, size=count, seed=9, config={}))


def score(row: dict[str, Any], answer: str) -> float:
    entry = {key: row[key] for key in ("question", "answer", "metadata")}
    return score_answer(json.dumps(entry), "{}", answer)


@pytest.mark.parametrize("task", CORRECTED_SCORERS)
def test_right_answers_of_a_corrected_dataset_score_1(task: str) -> None:
    for row in rows_of(task, 20):
        right = row["answer"] if row["answer"] is not None else row["metadata"]["example_answer"]
        assert score(row, right) == 1.0
        if (
            "puzzle" not in row["metadata"]
        ):  # the library takes the spaces of a puzzle's board for a part of it
            assert score(row, f" {right} ") == 1.0


@pytest.mark.parametrize(
    ("task", "answers"),
    [
        ("puzzle24", ("24", "24*1*1*1", "x/x", "24.5", "2**3*3", "1/0")),
        ("countdown", ("1+1", "(x-x)*1", "119")),
        ("prime_factorization", ("{number}", "1 × {number}", "{number} × 1")),
        ("time_intervals", ("06:00", "06:00:00", "10 days, 12:00", "50 days")),
    ],
)
def test_an_answer_of_the_right_form_gets_nearly_nothing(task: str, answers: tuple[str, ...]) -> None:
    for row in rows_of(task, 10):
        for answer in answers:
            guess = answer.format(**row["metadata"])
            if guess != row["answer"]:
                assert score(row, guess) <= 0.05, guess


def test_each_number_is_used_once_in_any_order_and_with_any_brackets() -> None:
    metadata = {"source_dataset": "puzzle24", "numbers": [4, 8, 6, 2]}
    row = {"question": "", "answer": "4*8 - 6 - 2", "metadata": metadata}
    for right in ("8*4-2-6", "-(2 + 6 - 8*4)", "(8 * 4) - (6 + 2)"):
        assert score(row, right) == 1.0
    for wrong in ("4*6", "6*4*1*1", "4*8-8", "4*8-6-2+0", "48-6*4*1", "(8/2)*6*4/4", "8*6/2"):
        assert score(row, wrong) <= 0.05
    metadata["numbers"] = [2, 6, 8, 4]
    assert score(row, "8/(2/6)*4/4") <= 0.05


def test_a_board_counts_by_the_cells_that_are_not_there_for_nothing() -> None:
    row = max(rows_of("game_of_life", 20), key=lambda row: str(row["answer"]).count("1"))
    right = json.loads(row["answer"])
    assert score(row, json.dumps([[0] * 10] * 10)) == score(row, json.dumps([[0] * 99] * 99)) == 0.0
    for wrong in (
        json.dumps([[*cells, 0] for cells in right]),
        json.dumps([*right, [0] * 10]),
        "0",
        "[0]",
        "{}",
    ):
        assert score(row, wrong) == 0.0
    right[0][0] = 1 - right[0][0]
    assert 0.0 < score(row, json.dumps(right)) < 1.0


@pytest.mark.parametrize("task", ["sudoku", "mini_sudoku", "futoshiki"])
def test_the_given_cells_of_a_puzzle_count_nothing(task: str) -> None:
    for row in rows_of(task, 5):
        solution, puzzle = row["metadata"]["solution"], row["metadata"]["puzzle"]
        filled = [[cell or 1 for cell in cells] for cells in puzzle]
        assert score(row, "\n".join(" ".join(map(str, cells)) for cells in filled)) < 0.5
        half = [*solution[: len(solution) // 2], *filled[len(solution) // 2 :]]
        assert 0.2 < score(row, "\n".join(" ".join(map(str, cells)) for cells in half)) < 1.0


def test_roles_are_all_right_and_nothing_else_is_said() -> None:
    for row in rows_of("knights_knaves", 5):
        assert score(row, row["answer"].upper()) == 1.0
        assert score(row, row["question"]) == score(row, f"They say: {row['answer']}") == 0.0
        terms = row["metadata"]["knight_knave_terms"]
        swapped = row["answer"].replace(terms["knight"], "?").replace(terms["knave"], terms["knight"])
        assert score(row, swapped.replace("?", terms["knave"], 1).replace("?", terms["knight"])) == 0.0


def test_a_duration_may_be_rounded_by_a_millisecond() -> None:
    row = next(row for row in rows_of("time_intervals", 40) if row["answer"].count(".") == 1)
    last = int(row["answer"][-1])
    assert score(row, row["answer"][:-1] + str(last - 1 if last else 1)) == 1.0
    assert score(row, row["answer"][:-5] + "9" + row["answer"][-4:]) == float(row["answer"][-5] == "9")


def test_a_copied_premise_is_no_conclusion() -> None:
    for row in rows_of("propositional_logic", 20):
        own = row["metadata"]["example_answer"]
        copies = [
            *row["metadata"]["premises"],
            " ∧ ".join(f"({text})" for text in row["metadata"]["premises"]),
        ]
        assert all(score(row, copy) <= 0.25 or copy.strip("()") == own.strip("()") for copy in copies)


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
