"""Replacements for scorers of the library (version 0.1.25) that an answer wins which does not know the task.

Such an answer is constant, or made from the text of the question. `search.py` finds these scorers. A corrected scorer
gets the answer, the entry and the library's scorer; the right answer still scores 1.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from resources_servers.reasoning_gym.conclusions import is_drawn_from_several

Entry = dict[str, Any]
"""An item of the library's datasets: `question`, `answer`, `metadata`."""
Scorer = Callable[[str, Entry], float]
CorrectedScorer = Callable[[str, Entry, Scorer], float]

_TOLERANCE = 1e-4
_ROUNDED_SHARE = 1e-7
"""The share of a day that rounding to milliseconds may cost."""
_FORM_ONLY = 0.05
"""The library's score for an expression or a conclusion of the right form that is wrong."""
_UNFORMATTED = 0.9
"""The library's factor for boards that are not exactly right."""
_ROLE_WORDS = ("is", "a", "an", "and")
_LAST_BOARD = re.compile(r"\[\s*\[[^\]]*\](?:\s*,\s*\[[^\]]*\])*\s*\]")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)")
_NO_ROOTS = frozenset(
    {"", '""', "''", "none", "no solution", "no solutions", "no real solution", "no real solutions"}
)


def score_truth_value(answer: str, entry: Entry, library: Scorer) -> float:
    """Compare the truth value. The library compares `bool` of texts, so that any text is right."""
    return float(answer.strip().casefold() == entry["answer"].casefold())


def score_complex_number(answer: str, entry: Entry, library: Scorer) -> float:
    """Refuse NaN and infinity. The library scores `min(1, exp(-nan))`, which is 1."""
    return 0.0 if re.search(r"nan|inf", answer, re.IGNORECASE) else library(answer, entry)


def score_probability(answer: str, entry: Entry, library: Scorer) -> float:
    """Compare probabilities within a ten-thousandth, and within a half of a smaller one.

    The library gives credit for a common prefix, divided by the shorter text: `0` begins every decimal.
    """
    try:
        given, right = (float(Fraction(text.replace(",", ""))) for text in (answer, entry["answer"]))
    except (ValueError, ZeroDivisionError, OverflowError):
        return 0.0
    return float(abs(given - right) <= min(_TOLERANCE, right / 2))


def score_exact(answer: str, entry: Entry, library: Scorer) -> float:
    """Give credit for the right answer only.

    The library gives much to counts near the right one, and most are near 7, and to the number itself in place of its
    prime factors.
    """
    return float(library(answer, entry) == 1.0)


def score_rows_of_numbers(answer: str, entry: Entry, library: Scorer) -> float:
    """Give credit for the right rows only.

    The library gives a text that holds them their share of it, and a whole turn leaves the matrix of the question.
    """
    given, right = ([row.split() for row in text.strip().splitlines()] for text in (answer, entry["answer"]))
    return float(given == right)


def score_duration(answer: str, entry: Entry, library: Scorer) -> float:
    """Give credit within milliseconds. The library takes the share of a day off, so that six hours score a half."""
    return float(library(answer, entry) >= 1.0 - _ROUNDED_SHARE)


def score_roles(answer: str, entry: Entry, library: Scorer) -> float:
    """Give credit for all roles, in an answer of names and roles.

    The library reads any text, and gives 0.65 for half of the roles.
    """
    terms = entry["metadata"]["knight_knave_terms"]
    allowed = {
        *(name.lower() for name in entry["metadata"]["names"]),
        terms["knight"],
        terms["knave"],
        *_ROLE_WORDS,
    }
    is_plain = allowed.issuperset(re.findall(r"[^\W\d_]+", answer.lower()))
    return float(is_plain and library(answer, entry) == 1.0)


def score_use_of_numbers(answer: str, entry: Entry, library: Scorer) -> float:
    """Compute the answer, which takes each number of the question once and + - * / only.

    The library takes any four numbers for 24, rounds down, and lets symbols stand for numbers (`x/x` is 1).
    """
    try:
        numbers, value = _compute(ast.parse(answer.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return min(library(answer, entry), _FORM_ONLY)
    is_right = sorted(numbers) == sorted(entry["metadata"]["numbers"])
    is_right = is_right and value == entry["metadata"].get("target", 24)
    return 1.0 if is_right else min(library(answer, entry), _FORM_ONLY)


def _compute(node: ast.expr) -> tuple[list[int], Fraction]:
    """Return the numbers of an expression, and its value. Raises ValueError for all but integers and + - * /."""
    match node:
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return [number], Fraction(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            numbers, value = _compute(operand)
            return numbers, -value
        case ast.BinOp(left=left, op=op, right=right):
            (numbers, one), (others, other) = _compute(left), _compute(right)
            match op:
                case ast.Add():
                    return numbers + others, one + other
                case ast.Sub():
                    return numbers + others, one - other
                case ast.Mult():
                    return numbers + others, one * other
                case ast.Div():
                    return numbers + others, one / other
    raise ValueError(f"{type(node).__name__} is not one of + - * /")


def score_cells(answer: str, entry: Entry, library: Scorer) -> float:
    """Give credit for the cells beyond those that the given board, or an empty one, has right, on a board of the size.

    The library gives an empty board of any larger size 0.95, because most cells are.
    """
    try:
        board, right = _read_board(answer), _read_board(entry["answer"])
        given = _read_board(_LAST_BOARD.findall(entry["question"])[-1])
    except (ValueError, IndexError):
        return 0.0
    if [len(row) for row in board] != [len(row) for row in right]:
        return 0.0
    share = max(_agreement(right, given), _agreement(right, [[0] * len(row) for row in right]))
    return 1.0 if board == right else _score_beyond(_agreement(right, board), share)


def _read_board(text: str) -> list[list[Any]]:
    board = json.loads(text)
    if not (isinstance(board, list) and all(isinstance(row, list) for row in board)):
        raise ValueError("no board")
    return board


def _agreement(right: list[list[Any]], board: list[list[Any]]) -> float:
    pairs = zip(
        (cell for row in right for cell in row), (cell for row in board for cell in row), strict=False
    )
    return math.fsum(one == other for one, other in pairs) / sum(map(len, right))


def score_blanks(answer: str, entry: Entry, library: Scorer) -> float:
    """Give credit for the cells that the puzzle leaves blank. The library counts those that it gives, too."""
    cells = [cell for row in entry["metadata"]["puzzle"] for cell in row]
    given = sum(cell != 0 for cell in cells) / len(cells)
    return _score_beyond(library(answer, entry), _UNFORMATTED * given)


def _score_beyond(score: float, share: float) -> float:
    """Return the part of the way from `share`, which costs nothing, to 1."""
    return max(0.0, (score - share) / (1.0 - share)) if share < 1.0 else 0.0


def score_conclusion(answer: str, entry: Entry, library: Scorer) -> float:
    """Give full credit to the task's own conclusion, and to others that are drawn from several premises.

    The library gives it to every statement that follows, so that a copied premise or `P ∨ Q` wins most tasks.
    """
    score, metadata = library(answer, entry), entry["metadata"]
    own = metadata.get("example_answer")
    if score < 1.0 or (own is not None and _strip_brackets(answer) == _strip_brackets(own)):
        return score
    is_drawn = is_drawn_from_several(answer, metadata["premises"], metadata["variables"])
    return score if is_drawn else _FORM_ONLY


def _strip_brackets(statement: str) -> str:
    return "".join(statement.split()).removeprefix("(").removesuffix(")")


def score_roots(answer: str, entry: Entry, library: Scorer) -> float:
    """Read plain decimals, as the question asks for. The library drops other words, so that any is "no real roots"."""
    parts = [part.strip() for part in answer.split(",")]
    if not entry["answer"]:
        return float(answer.strip().strip(".").casefold() in _NO_ROOTS)
    return library(answer, entry) if all(map(_DECIMAL.fullmatch, parts)) else 0.0


CORRECTED_SCORERS: Mapping[str, CorrectedScorer] = {
    "coin_flip": score_probability,
    "complex_arithmetic": score_complex_number,
    "countdown": score_use_of_numbers,
    "futoshiki": score_blanks,
    "game_of_life": score_cells,
    "game_of_life_halting": score_truth_value,
    "knights_knaves": score_roles,
    "mini_sudoku": score_blanks,
    "polynomial_equations": score_roots,
    "prime_factorization": score_exact,
    "propositional_logic": score_conclusion,
    "puzzle24": score_use_of_numbers,
    "rectangle_count": score_exact,
    "rotate_matrix": score_rows_of_numbers,
    "sudoku": score_blanks,
    "time_intervals": score_duration,
}
