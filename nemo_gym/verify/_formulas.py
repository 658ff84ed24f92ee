r"""Equality of formulas by sympy. Runs in a worker process; imports sympy and its LaTeX parser on first use.

Equality of formulas is undecidable in general, and sympy's simplification may never end: the difference of
`(2+\sqrt3)^{2016}` and `2^{2016}` is an example. Both formulas are therefore first evaluated to 50 digits, with free
variables at fixed points. Clearly different values refute equality, which decides nearly every wrong answer in
milliseconds. Constants that agree to 40 digits are equal. Only the remaining cases are simplified.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nemo_gym.verify._math_answers import Unstructured

if TYPE_CHECKING:
    from sympy import Expr  # type: ignore[import-untyped]

DIGITS = 50
ROUNDING = 1e-6
"""Decimals may differ from the exact value by this, relative to the larger one, absolute below 1."""
CERTAINLY_SAME = 1e-40
MAX_DIGITS = 100_000
"""Numbers with more digits are not evaluated."""
_POINTS = 3


class Decision(StrEnum):
    """The result of a comparison."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


def decide(one: str, other: str) -> Decision:
    """Compare two expressions, in the spelling of `_notation`. Raises Unstructured for one that is not understood."""
    return _without_errors(lambda: compare_expressions(parse(one), parse(other)))


def _without_errors(compare: Callable[[], Decision]) -> Decision:
    """Return the decision; undecided if sympy fails, which has no single error for what it cannot do."""
    try:
        return compare()
    except (Unstructured, MemoryError):
        raise
    except Exception:  # noqa: BLE001
        return Decision.UNDECIDED


def decide_relations(operator: str, one: tuple[str, str], other: tuple[str, str]) -> Decision:
    """Compare two equations or inequalities with one operator, as pairs of their sides."""
    return _without_errors(lambda: _compare_differences(operator, one, other))


def _compare_differences(operator: str, one: tuple[str, str], other: tuple[str, str]) -> Decision:
    """Two equations are the same if the differences of their sides have a constant ratio."""
    from sympy import simplify

    left, right = (parse(sides[0]) - parse(sides[1]) for sides in (one, other))
    right = _with_symbols_of(left, right)
    if left.free_symbols != right.free_symbols:
        return Decision.DIFFERENT
    ratios = [a / b for a, b in _values_of(left, right, _POINTS) if b]
    if len(ratios) < _POINTS or any(abs(ratio - ratios[0]) > ROUNDING * abs(ratios[0]) for ratio in ratios):
        return Decision.DIFFERENT if len(ratios) == _POINTS else Decision.UNDECIDED
    is_reversed = operator not in ("=", "\\neq") and complex(ratios[0]).real < 0
    if is_reversed:
        return Decision.DIFFERENT
    return Decision.EQUAL if simplify(left / right).is_number else Decision.UNDECIDED


_UNCLEAR = (
    (re.compile(r"\d\s+\d"), "white space between digits"),
    (re.compile(r"'"), "a prime"),
    (re.compile(r"[\d)]\s*_"), "a base"),
    (
        re.compile(r"\\(?:ldots|cdots|vdots|text|mathrm|dot|overline|widehat|angle|pmod)(?![a-zA-Z])"),
        "a command",
    ),
    (
        re.compile(r"\\[dt]?binom\s*\{\s*\d{5,}|\d{5,}\s*!|\d\^\{\d+\}\s*\)\s*!"),
        "a number of too many digits",
    ),
    (re.compile(r"/\s*\d+\s*(?:[a-zA-Z(]|\\(?!cdot|div))"), "a product after a slash"),
    (re.compile(r"[%$#@?\"&]|[^\x00-\x7f]"), "a character"),
)
_DEGREES = re.compile(r"(\d+(?:\.\d+)?)\s*\^\{\\circ\}")
_MATRIX = re.compile(r"\\begin\s*\{([pbv]?matrix|array)\}")


def parse(text: str) -> Any:
    """Return the sympy expression of `text`. Raises Unstructured."""
    from latex2sympy2_extended.latex2sympy2 import (
        ConversionConfig,
        latex2sympy,
    )

    is_matrix = _MATRIX.search(text) is not None
    for pattern, name in _UNCLEAR:
        if pattern.search(text.replace("&", ",") if is_matrix else text):
            raise Unstructured(f"{name} that has no one meaning")
    text = _DEGREES.sub(r"(\1\\cdot \\frac{\\pi }{180})", text)
    logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)
    config = ConversionConfig(lowercase_symbols=False)
    try:
        parsed = latex2sympy(text, is_real=True, normalization_config=None, conversion_config=config)
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # the parser raises Exception itself
        raise Unstructured(f"it cannot be parsed: {str(error)[:100]}") from error
    if parsed is None or isinstance(parsed, (list, tuple, bool)):
        raise Unstructured("it is no expression")
    return _with_imaginary_unit(parsed)


def _with_imaginary_unit(parsed: Any) -> Any:
    from sympy import I

    return parsed.subs({symbol: I for symbol in parsed.free_symbols if symbol.name == "i"})


def _with_symbols_of(wanted: Any, given: Any) -> Any:
    """Replace the symbols of `given` by those of `wanted` with the same name but other assumptions."""
    symbols = {symbol.name: symbol for symbol in wanted.free_symbols}
    return given.subs({symbol: symbols.get(symbol.name, symbol) for symbol in given.free_symbols})


def compare_expressions(wanted: Any, given: Any) -> Decision:
    """Compare two sympy expressions."""
    from sympy import Expr, Float, nan, oo, zoo

    given = _with_symbols_of(wanted, given)
    if getattr(wanted, "is_Matrix", False) or getattr(given, "is_Matrix", False):
        return _compare_matrices(wanted, given)
    if not (isinstance(wanted, Expr) and isinstance(given, Expr)):
        return Decision.EQUAL if wanted == given else Decision.UNDECIDED
    if wanted.has(zoo, nan) or given.has(zoo, nan):
        return Decision.UNDECIDED
    if wanted == given:
        return Decision.EQUAL
    if wanted.has(oo, -oo) or given.has(oo, -oo):
        return Decision.DIFFERENT
    by_value = _compare_values(wanted, given)
    if by_value is not None:
        return by_value
    if wanted.has(Float) or given.has(Float):
        return Decision.UNDECIDED
    return _compare_symbolically(wanted, given)


def _compare_matrices(wanted: Any, given: Any) -> Decision:
    if getattr(wanted, "shape", None) != getattr(given, "shape", None):
        return Decision.DIFFERENT
    found = {compare_expressions(left, right) for left, right in zip(wanted, given, strict=True)}
    if found <= {Decision.EQUAL}:
        return Decision.EQUAL
    return Decision.DIFFERENT if Decision.DIFFERENT in found else Decision.UNDECIDED


def _compare_values(wanted: Any, given: Any) -> Decision | None:
    """Return the verdict of the values of two expressions; None when they do not decide it."""
    from sympy import Float

    is_constant = not (wanted.free_symbols or given.free_symbols)
    pairs = list(_values_of(wanted, given, 1 if is_constant else _POINTS))
    distances = [float(abs(left - right) / max(1, abs(left), abs(right))) for left, right in pairs]
    if any(distance > ROUNDING for distance in distances):
        return Decision.DIFFERENT
    if not distances:
        return Decision.UNDECIDED if is_constant else None
    has_decimals = wanted.has(Float) or given.has(Float)
    if is_constant and (has_decimals or distances[0] < CERTAINLY_SAME):
        return Decision.EQUAL
    if has_decimals and len(distances) == _POINTS:
        return Decision.EQUAL
    if is_constant and distances[0] > CERTAINLY_SAME:
        return Decision.DIFFERENT
    return None


def _compare_symbolically(wanted: Expr, given: Expr) -> Decision:
    from math_verify import verify

    is_same = verify(wanted, given, timeout_seconds=None) or verify(given, wanted, timeout_seconds=None)
    # The values agree at every point, but sympy finds no proof.
    return Decision.EQUAL if is_same else Decision.UNDECIDED


def _values_of(wanted: Expr, given: Expr, points: int) -> Iterator[tuple[Any, Any]]:
    """Yield the values at each point where both are defined."""
    from sympy import Product, Sum, binomial, factorial

    if _digits(wanted) > MAX_DIGITS or _digits(given) > MAX_DIGITS:
        return
    symbols = sorted(wanted.free_symbols | given.free_symbols, key=str)
    needs_integers = any(side.has(Sum, Product, binomial, factorial) for side in (wanted, given))
    coordinate = _integer_coordinate if needs_integers else _coordinate
    for point in range(points):
        substitutions = {symbol: coordinate(index, point) for index, symbol in enumerate(symbols)}
        left, right = _value(wanted, substitutions), _value(given, substitutions)
        if left is not None and right is not None:
            yield left, right


def _coordinate(index: int, point: int) -> Any:
    """Return the coordinate of a symbol: both signs occur, none is an integer, all differ, and one point is far out."""
    from sympy import Rational

    far = 97 if point == _POINTS - 1 else 1
    return Rational((-1) ** (index + point) * far * (731 + 618 * index + 1414 * point), 1000)


def _integer_coordinate(index: int, point: int) -> Any:
    from sympy import Integer

    return Integer(11 - 3 * point + 2 * index)


def _value(expression: Expr, substitutions: dict[Any, Any]) -> Any:
    """Return the real or complex value to `DIGITS` digits; None where it is undefined or not certain."""
    from sympy.core.evalf import PrecisionExhausted  # type: ignore[import-untyped]

    try:
        value = expression.evalf(DIGITS, subs=substitutions, strict=True)
    except (PrecisionExhausted, TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return None  # sympy has no single error for an expression that it cannot evaluate
    return value if value.is_number and value.is_finite else None


def _digits(expression: Any) -> float:
    """Return an upper bound of the digits that evaluating the powers and factorials of an expression takes."""
    from sympy import Pow, binomial, factorial, preorder_traversal

    numeric = (
        node
        for node in preorder_traversal(expression)
        if isinstance(node, (Pow, factorial, binomial)) and not node.free_symbols
    )
    return max(map(_digits_of, numeric), default=0.0)


def _digits_of(node: Any) -> float:
    size = _size(node.args[-1] if node.is_Pow else node.args[0])
    base = _size(node.args[0]) if node.is_Pow else size
    return size * max(1.0, math.log10(base + 1)) if math.isfinite(size) and math.isfinite(base) else math.inf


def _size(node: Any) -> float:
    """Return an upper bound of the absolute value of a constant, infinity where it is beyond the floats."""
    try:
        if node.is_Number:
            return float(abs(node))
        if node.is_Pow:
            return float(max(2.0, _size(node.args[0])) ** max(1.0, _size(node.args[1])))
    except OverflowError:
        return math.inf
    sizes = [_size(member) for member in node.args]
    if node.is_Mul:
        return math.prod(max(1.0, size) for size in sizes)
    if node.is_Add or not sizes:
        return sum(sizes) or 10.0
    return (
        math.inf
        if node.func.__name__ in ("factorial", "binomial") and max(sizes) > 170
        else max(10.0, *sizes)
    )
