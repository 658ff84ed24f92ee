r"""Equality of formulas by sympy. Runs in a worker process; imports sympy and its LaTeX parser on first use.

Equality of formulas is undecidable in general, and sympy's simplification may never end: the difference of
`(2+\sqrt3)^{2016}` and `2^{2016}` is an example. Both formulas are therefore first evaluated to 50 digits, with free
variables at fixed points. Clearly different values refute equality, which decides nearly every wrong answer in
milliseconds. Constants are equal if their difference is zero to 50 digits more than the digits of their largest part,
so that `2^{1000}` is not `2^{1000}-1`. Only the remaining cases are simplified.

A decimal is an exact fraction. If it is not whole, it may also be another constant rounded (`numbers.TOLERANCE`).
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from nemo_gym.verify.numbers import TOLERANCE, is_same_value
from resources_servers.math_with_judge.math_answers import Unstructured

if TYPE_CHECKING:
    from sympy import Expr  # type: ignore[import-untyped]

DIGITS = 50
CERTAINLY_SAME = 1e-40
ROUNDING = float(TOLERANCE)
MAX_DIGITS = 100_000
"""Numbers with more digits are not evaluated."""
MAX_TERMS = 3000
"""Sums and products with more terms are not written out."""
_POINTS = 3


class Decision(StrEnum):
    """The result of a comparison."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


def decide(one: str, other: str) -> Decision:
    """Compare two expressions, in the spelling of `_notation`. Raises Unstructured for one that is not understood."""
    are_decimals = has_decimal(one), has_decimal(other)
    return _decide_safely(lambda: compare_expressions(parse(one), parse(other), are_decimals))


def is_rounded_to(exact: str, rounded: Fraction, places: int) -> bool:
    """Return whether `rounded` is the value of a formula, rounded or cut to a number of decimal places."""
    try:
        value = complex(parse(exact).evalf(DIGITS))
    except (Unstructured, TypeError, ValueError):
        return False
    decimal, unit = float(rounded), 0.1**places
    is_cut = places > 0 and 0 <= abs(value) - abs(decimal) < unit and value.real * decimal >= 0
    return is_cut or abs(value - decimal) <= unit / 2 * (1 + ROUNDING)


def _decide_safely(compare: Callable[[], Decision]) -> Decision:
    """Return the decision; undecided if sympy fails, which has no single error for what it cannot do."""
    try:
        return compare()
    except (Unstructured, MemoryError):
        raise
    except Exception:  # noqa: BLE001
        return Decision.UNDECIDED


def decide_relations(operator: str, one: tuple[str, str], other: tuple[str, str]) -> Decision:
    """Compare two equations or inequalities with one operator, as pairs of their sides."""
    return _decide_safely(lambda: _compare_differences(operator, one, other))


def _compare_differences(operator: str, one: tuple[str, str], other: tuple[str, str]) -> Decision:
    """Two equations are the same if the differences of their sides have a constant ratio."""
    from sympy import simplify

    left, right = (parse(sides[0]) - parse(sides[1]) for sides in (one, other))
    right = _unify_symbols(left, right)
    if left.free_symbols != right.free_symbols:
        return Decision.DIFFERENT
    ratios = [a / b for a, b in _evaluate_at_points(left, right, _POINTS) if b]
    if len(ratios) < _POINTS or any(abs(ratio - ratios[0]) > ROUNDING * abs(ratios[0]) for ratio in ratios):
        return Decision.DIFFERENT if len(ratios) == _POINTS else Decision.UNDECIDED
    is_reversed = operator not in ("=", "\\neq") and complex(ratios[0]).real < 0
    if is_reversed:
        return Decision.DIFFERENT
    return Decision.EQUAL if simplify(left / right).is_number else Decision.UNDECIDED


_UNCLEAR = (
    (re.compile(r"\d\s+\d"), "white space between digits"),
    (re.compile(r"'"), "a prime"),
    (re.compile(r"!\s*!"), "a double factorial"),
    (re.compile(r"[\d)]\s*_"), "a base"),
    (
        re.compile(r"\\(?:ldots|cdots|vdots|text|mathrm|dot|overline|widehat|angle|pmod)(?![a-zA-Z])"),
        "a command",
    ),
    (
        re.compile(r"\\[dt]?binom\s*\{\s*\d{5,}|\d{5,}\s*!|\d\^\{\d+\}\s*\)\s*!"),
        "a number of too many digits",
    ),
    (re.compile(r"/\s*\d+\s*(?:[a-zA-Z(]|\\(?!cdot|div|end|\\))"), "a product after a slash"),
    (re.compile(r"(?<!\d)\s*\^\{\\circ\}"), "a degree sign on a formula"),
    (re.compile(r"[%$#@?\"&]|[^\x00-\x7f]"), "a character"),
)
_DEGREES = re.compile(r"(\d+(?:\.\d+)?)\s*\^\{\\circ\}")
_MATRIX = re.compile(r"\\begin\{[pv]matrix\}")
_DECIMAL = re.compile(r"(?<![\d.])(?P<whole>\d*)\.(?P<places>\d+)(?![\d.])|(?<![\d.])\d+\.(?![\d.])")
_TYPESET_SYMBOL = re.compile(r"\\(?:text|mathrm)\s*\{\s*([a-zA-Z]|\d+)\s*\}")


def has_decimal(text: str) -> bool:
    """Return whether a number in `text` is written as a decimal."""
    return _DECIMAL.search(text) is not None


def _write_fraction(decimal: re.Match[str]) -> str:
    places = decimal["places"] or ""
    return f"(\\frac{{{(decimal['whole'] or '') + places or decimal[0][:-1]}}}{{{10 ** len(places)}}})"


def parse(text: str) -> Any:
    """Return the sympy expression of `text`. Raises Unstructured."""
    from latex2sympy2_extended.latex2sympy2 import (
        ConversionConfig,
        latex2sympy,
    )

    text = _TYPESET_SYMBOL.sub(r" \1", text)
    is_matrix = _MATRIX.search(text) is not None
    for pattern, name in _UNCLEAR:
        if pattern.search(text.replace("&", ",") if is_matrix else text):
            raise Unstructured(f"{name} that has no one meaning")
    text = _DECIMAL.sub(_write_fraction, _DEGREES.sub(r"(\1\\cdot \\frac{\\pi }{180})", text))
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
    return _insert_imaginary_unit(parsed)


def _insert_imaginary_unit(parsed: Any) -> Any:
    from sympy import I

    return parsed.subs({symbol: I for symbol in parsed.free_symbols if symbol.name == "i"})


def _unify_symbols(wanted: Any, given: Any) -> Any:
    """Replace the symbols of `given` by those of `wanted` with the same name but other assumptions."""
    symbols = {symbol.name: symbol for symbol in wanted.free_symbols}
    return given.subs({symbol: symbols.get(symbol.name, symbol) for symbol in given.free_symbols})


def compare_expressions(
    wanted: Any, given: Any, are_decimals: tuple[bool, bool] = (False, False)
) -> Decision:
    """Compare two sympy expressions; `are_decimals` says of each whether a number in it may be rounded."""
    from sympy import Expr, nan, oo, zoo

    given = _unify_symbols(wanted, given)
    if getattr(wanted, "is_Matrix", False) or getattr(given, "is_Matrix", False):
        return _compare_matrices(wanted, given, are_decimals)
    if not (isinstance(wanted, Expr) and isinstance(given, Expr)):
        return Decision.EQUAL if wanted == given else Decision.UNDECIDED
    if wanted.has(zoo, nan) or given.has(zoo, nan):
        return Decision.UNDECIDED
    if wanted == given:
        return Decision.EQUAL
    if any(side.has(oo, -oo) and not side.has(*_numeric_functions()) for side in (wanted, given)):
        return Decision.DIFFERENT
    if not (wanted.free_symbols or given.free_symbols):
        return _compare_constants(wanted, given, are_decimals)
    return _compare_functions(wanted, given, is_rounded=any(are_decimals))


def _compare_matrices(wanted: Any, given: Any, are_decimals: tuple[bool, bool]) -> Decision:
    wanted, given = (side.doit() if hasattr(side, "doit") else side for side in (wanted, given))
    if getattr(wanted, "shape", None) != getattr(given, "shape", None):
        return Decision.DIFFERENT
    found = {
        compare_expressions(left, right, are_decimals) for left, right in zip(wanted, given, strict=True)
    }
    if found <= {Decision.EQUAL}:
        return Decision.EQUAL
    return Decision.DIFFERENT if Decision.DIFFERENT in found else Decision.UNDECIDED


def _compare_constants(wanted: Expr, given: Expr, are_decimals: tuple[bool, bool]) -> Decision:
    if max(_count_digits(wanted), _count_digits(given)) > MAX_DIGITS:
        return Decision.UNDECIDED
    sides = [_evaluate(side) for side in (wanted, given)]
    if all(side.is_Rational for side in sides):
        one, other = (Fraction(int(side.p), int(side.q)) for side in sides)
        return Decision.EQUAL if is_same_value(one, other, is_rounded=are_decimals) else Decision.DIFFERENT
    may_be_rounded = any(
        is_decimal and not side.is_integer for is_decimal, side in zip(are_decimals, sides, strict=True)
    )
    for left, right in _evaluate_at_points(sides[0], sides[1], 1):
        distance = _distance(left, right)
        if may_be_rounded:
            return Decision.EQUAL if distance <= ROUNDING else Decision.DIFFERENT
        if distance > CERTAINLY_SAME:
            return Decision.DIFFERENT
        if any(
            side.has(*_numeric_functions()) for side in sides
        ):  # their values are not certain to more digits
            return Decision.EQUAL if abs(left) < 1 / CERTAINLY_SAME else Decision.UNDECIDED
    return Decision.UNDECIDED if may_be_rounded else _compare_exactly(sides[0], sides[1])


def _compare_exactly(wanted: Expr, given: Expr) -> Decision:
    """Compare two constants by their difference, to more digits than their largest part has."""
    difference = wanted - given
    if difference == 0:
        return Decision.EQUAL
    digits = 2 * DIGITS + int(_count_digits(wanted) + _count_digits(given))
    value = _value(difference, {}, digits)
    if value is not None:
        return Decision.EQUAL if value == 0 else Decision.DIFFERENT
    rest = difference.evalf(DIGITS, maxn=digits)
    is_zero = rest.is_number and rest.is_finite and abs(rest) < CERTAINLY_SAME
    is_certain = not difference.has(*_numeric_functions())
    return Decision.EQUAL if is_zero and is_certain else Decision.UNDECIDED


def _numeric_functions() -> tuple[type, ...]:
    """Return the functions that have a value by numeric methods only."""
    from sympy import Derivative, Integral, Limit, Product, Sum

    return Derivative, Integral, Limit, Product, Sum


def _evaluate(constant: Expr) -> Expr:
    """Return a constant with its short sums and products written out, and exact where it is rational."""
    from sympy import Add, Limit, Mul, Product, Sum, UnevaluatedExpr, oo, preorder_traversal

    def is_short(expression: Any) -> bool:
        if not isinstance(expression, (Sum, Product)) or len(expression.limits) != 1:
            return False
        low, high = expression.limits[0][1:]
        return bool(low.is_Integer and high.is_Integer and 0 <= high - low < MAX_TERMS)

    def is_endless(expression: Any) -> bool:
        return isinstance(expression, Limit) or (
            isinstance(expression, (Sum, Product)) and expression.has(oo)
        )

    def write_out(expression: Any) -> Expr:
        index, low, high = expression.limits[0]
        terms = (expression.function.subs(index, number) for number in range(int(low), int(high) + 1))
        return Add(*terms) if isinstance(expression, Sum) else Mul(*terms)

    constant = constant.replace(is_short, write_out)
    constant = constant.replace(is_endless, lambda expression: expression.doit())
    if isinstance(constant, UnevaluatedExpr):
        constant = constant.args[0]
    return constant.doit() if all(map(_is_rational_operation, preorder_traversal(constant))) else constant


def _is_rational_operation(expression: Any) -> bool:
    """Return whether sympy computes the operation exactly and soon: it factors whole numbers below a root."""
    if expression.is_Pow:
        return not (expression.exp.is_Rational and not expression.exp.is_Integer)
    return bool(
        expression.is_Rational
        or expression.is_Add
        or expression.is_Mul
        or expression.func.__name__ in ("factorial", "binomial")
    )


def _distance(left: Any, right: Any) -> float:
    """Return the distance of two values, relative to the larger one."""
    larger = max(abs(left), abs(right))
    return float(abs(left - right) / larger) if larger else 0.0


def _compare_functions(wanted: Expr, given: Expr, *, is_rounded: bool) -> Decision:
    from sympy import Integral

    if max(_count_digits(wanted), _count_digits(given)) > MAX_DIGITS:  # sympy may never end
        return Decision.UNDECIDED
    distances = [_distance(left, right) for left, right in _evaluate_at_points(wanted, given, _POINTS)]
    is_certain = not (is_rounded or wanted.has(Integral) or given.has(Integral))
    if any(distance > (CERTAINLY_SAME if is_certain else ROUNDING) for distance in distances):
        return Decision.DIFFERENT
    if is_rounded and len(distances) == _POINTS:
        return Decision.EQUAL if _have_same_terms(wanted, given) else Decision.DIFFERENT
    return _compare_symbolically(wanted, given)


def _have_same_terms(wanted: Expr, given: Expr) -> bool:
    """Return whether no sum of terms has one more than the other: `x` is not `x+0.0000001`."""
    from sympy import expand_mul

    one, other = (set(expand_mul(side).as_coefficients_dict()) for side in (wanted, given))
    return not (one < other or other < one)


def _compare_symbolically(wanted: Expr, given: Expr) -> Decision:
    from math_verify import verify

    is_same = verify(wanted, given, timeout_seconds=None) or verify(given, wanted, timeout_seconds=None)
    # The values agree at every point, but sympy finds no proof.
    return Decision.EQUAL if is_same else Decision.UNDECIDED


def _evaluate_at_points(wanted: Expr, given: Expr, points: int) -> Iterator[tuple[Any, Any]]:
    """Yield the values at each point where both are defined."""
    from sympy import Product, Sum, binomial, factorial

    if max(_count_digits(wanted), _count_digits(given)) > MAX_DIGITS:
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


def _value(expression: Expr, substitutions: dict[Any, Any], most_digits: int = 2 * DIGITS) -> Any:
    """Return the real or complex value to `DIGITS` digits; None where it is undefined or not certain.

    `most_digits` limits the digits of intermediate results.
    """
    from sympy.core.evalf import PrecisionExhausted  # type: ignore[import-untyped]

    try:
        value = expression.evalf(DIGITS, subs=substitutions, strict=True, maxn=most_digits)
    except (PrecisionExhausted, TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return None  # sympy has no single error for an expression that it cannot evaluate
    return value if value.is_number and value.is_finite else None


def _count_digits(expression: Any, *, is_exact: bool = False) -> float:
    """Return an upper bound of the digits before and after the point that the value of an expression has.

    Functions of variables count as their largest part: their values are rounded. Not so factorials, which sympy
    computes exactly (`is_exact`), of variables that are small whole numbers.
    """
    if expression.is_Rational:
        return max(math.log10(abs(int(part)) or 1) for part in (expression.p, expression.q))
    is_exact = is_exact or expression.func.__name__ in ("factorial", "binomial", "gamma")
    parts = [_count_digits(part, is_exact=is_exact) for part in expression.args]
    largest = max(parts, default=1.0)
    if not parts or (expression.free_symbols and not is_exact):
        return largest
    if expression.is_Add:
        return largest + math.log10(len(parts))
    if expression.is_Mul:
        return sum(parts)
    if expression.func.__name__ not in ("Pow", "exp", "factorial", "binomial", "gamma"):
        return max(1.0, largest)
    size = parts[-1]  # of the exponent, or of the argument
    return max(parts[0], 1.0 if len(parts) == 1 else 0.0) * (10.0**size if size < 300 else math.inf)
