"""Prevent the library's scorers from executing a model's answer as code.

Some scorers of `reasoning_gym` pass an answer to `eval`, others to sympy's `parse_expr`, which uses `eval` too. Worker
processes are reused: code in an answer could read the right answer, or change the scorers for all later answers.
Therefore `eval` is replaced in the modules that use it, and answers are validated before `parse_expr` reads them.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

EXPRESSION_TASKS = frozenset(
    {"countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24", "simple_integration"}
)
"""The tasks whose scorer passes the answer to sympy's `parse_expr`."""

UNSOLVED_INTEGRAL = frozenset({"Integral"})
"""A row's own answer may contain an integral that sympy could not solve. A model's answer may not, because otherwise
it could restate the question."""

MAX_EXPRESSION_LENGTH = 2000
MAX_POWER = 1000
"""The highest exponent in an expression, with nested exponents multiplied: it excludes `9**9**9**9`."""

_TRIGONOMETRY = ("sin", "cos", "tan", "cot", "sec", "csc")
_HYPERBOLIC = ("sinh", "cosh", "tanh")
_FUNCTIONS = frozenset(
    [
        *("exp", "log", "ln", "sqrt", "cbrt", "Abs", "abs", "erf"),
        *(inverse + name for name in (*_TRIGONOMETRY, *_HYPERBOLIC) for inverse in ("", "a")),
    ]
)
_CHARACTERS = re.compile(r"[\w.+\-*/(), \t\n]+", re.ASCII)
"""Excludes comments, quotes and other letters, which sympy may tokenize differently from Python."""
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_SIGNS = (ast.UAdd, ast.USub)
_INTEGER_OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift,
)  # fmt: skip


def is_plain_expression(text: str, *, more_functions: frozenset[str] = frozenset()) -> bool:
    """Return whether `text` is plain arithmetic: numbers, one-letter symbols, pi, + - * / **, elementary functions."""
    text = text.strip()
    if len(text) > MAX_EXPRESSION_LENGTH or not _CHARACTERS.fullmatch(text):
        return False
    try:
        return _power_of(ast.parse(text, mode="eval").body, _FUNCTIONS | more_functions) <= MAX_POWER
    except (SyntaxError, ValueError, OverflowError, RecursionError):
        return False


def _power_of(element: ast.expr, functions: frozenset[str]) -> float:
    """Return the highest exponent inside `element`, nested ones multiplied. Raises ValueError for other expressions."""
    match element:
        case ast.Constant(value=int() | float()) if not isinstance(element.value, bool):
            return 1.0
        case ast.Name(id=name) if len(name) == 1 or name == "pi":
            return 1.0
        case ast.UnaryOp(op=op, operand=operand) if isinstance(op, _SIGNS):
            return _power_of(operand, functions)
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
            if _power_of(exponent, functions) > 1.0:
                raise ValueError("a power in an exponent")
            return _power_of(base, functions) * max(1.0, _magnitude(exponent))
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
            return max(_power_of(left, functions), _power_of(right, functions))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in functions:
            return max((_power_of(argument, functions) for argument in arguments), default=1.0)
        case _:
            raise ValueError(f"{type(element).__name__} is not plain arithmetic")


def _magnitude(element: ast.expr) -> float:
    """Return an upper bound of a plain expression without powers, for symbols of at most 1.

    A function counts as its largest argument, so that `log(exp(n))` cannot hide n.
    """
    match element:
        case ast.Constant(value=int() | float() as value):
            return abs(float(value))
        case ast.UnaryOp(operand=operand):
            return _magnitude(operand)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _magnitude(left) * _magnitude(right)
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=int() | float() as value)) if value:
            return _magnitude(left) / abs(float(value))
        case ast.BinOp(op=ast.Div()):
            return math.inf
        case ast.BinOp(left=left, right=right):
            return _magnitude(left) + _magnitude(right)
        case ast.Call(args=arguments):
            return max(map(_magnitude, arguments), default=1.0)
        case _:
            return 1.0


def integer_arithmetic(text: str) -> int:
    """Return the value of an expression of integers and their operators. Raises ValueError for other expressions."""
    tree = ast.parse(text.strip(), mode="eval")
    for element in ast.walk(tree.body):
        is_number = isinstance(element, ast.Constant) and type(element.value) is int
        is_operation = isinstance(element, (ast.BinOp, ast.UnaryOp, *_INTEGER_OPERATORS, *_SIGNS, ast.Invert))
        if not (is_number or is_operation):
            raise ValueError(f"{type(element).__name__} is not integer arithmetic")
    value: int = eval(compile(tree, "<arithmetic>", "eval"), {"__builtins__": {}})
    return value


EVAL_REPLACEMENTS: Mapping[str, Callable[[str], Any]] = {
    "reasoning_gym.algorithmic.binary_matrix": ast.literal_eval,
    "reasoning_gym.algorithmic.number_sorting": ast.literal_eval,
    "reasoning_gym.algorithmic.spiral_matrix": ast.literal_eval,
    "reasoning_gym.algorithmic.string_insertion": ast.literal_eval,
    "reasoning_gym.arithmetic.bitwise_arithmetic": integer_arithmetic,
    "reasoning_gym.games.n_queens": ast.literal_eval,
}
"""The modules whose scorers call `eval`, on the answer or on the row, and the replacement."""


def replace_eval() -> None:
    """Replace `eval` in the modules of `EVAL_REPLACEMENTS` by a function that only parses data."""
    for name, replacement in EVAL_REPLACEMENTS.items():
        vars(importlib.import_module(name))["eval"] = replacement
