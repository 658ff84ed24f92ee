r"""Equality of formulas by math-verify and sympy. Runs in a worker process; imports both libraries on first use.

Equality of formulas is undecidable in general, and sympy's simplification may never end: the difference of
`(2+\sqrt3)^{2016}` and `2^{2016}` is an example. Both formulas are therefore first evaluated to 50 digits, with free
variables at fixed points. Clearly different values refute equality, which decides nearly every wrong answer in
milliseconds. Constants that agree to 40 digits are equal. Only the remaining cases go to math-verify.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sympy import Expr  # type: ignore[import-untyped]

DIGITS = 50
CLEARLY_DIFFERENT = 1e-5
"""Relative to the larger value, absolute below 1. Wider than math-verify's rounding of decimals (1e-6), so that
math-verify decides on rounded answers."""
CERTAINLY_SAME = 1e-40
_POINTS = 2


def is_same_formula(expected: str, answer: str) -> bool:
    """Return whether `answer` equals `expected`, in LaTeX or plain notation. An unparsable formula equals nothing."""
    from math_verify import verify

    logging.getLogger("math_verify").setLevel(logging.ERROR)
    wanted, given = _parse(expected), _parse(answer)
    if wanted is None or given is None:
        return False
    given = _with_symbols_of(wanted, given)
    verdict = _compare_values(wanted, given)
    if verdict is None:
        # The worker pool enforces the deadline: math-verify's own timeout would score a slow machine as wrong.
        verdict = verify(wanted, given, allow_set_relation_comp=True, timeout_seconds=None)
    return bool(verdict)


def _parse(text: str) -> Any:
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    parsed = parse(
        f"\\boxed{{{text}}}",
        extraction_config=[LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()],
        fallback_mode="no_fallback",
        parsing_timeout=None,
    )
    return _with_imaginary_unit(parsed[0]) if parsed else None


def _with_imaginary_unit(parsed: Any) -> Any:
    """Replace the free symbol `i` by the imaginary unit: math-verify keeps it as a symbol, whose assumptions depend
    on the typesetting of the text."""
    from sympy import I

    return parsed.subs({symbol: I for symbol in parsed.free_symbols if symbol.name == "i"})


def _with_symbols_of(wanted: Any, given: Any) -> Any:
    """Replace the symbols of `given` by those of `wanted` with the same name but other assumptions."""
    symbols = {symbol.name: symbol for symbol in wanted.free_symbols}
    return given.subs({symbol: symbols.get(symbol.name, symbol) for symbol in given.free_symbols})


def _compare_values(wanted: object, given: object) -> bool | None:
    """Return whether the values of two expressions agree; None when the values do not decide it."""
    from sympy import Expr, Float, Product, Sum, Symbol

    for side in (wanted, given):
        if not isinstance(side, Expr) or isinstance(side, Symbol) or getattr(side, "is_Matrix", False):
            return None
    assert isinstance(wanted, Expr)
    assert isinstance(given, Expr)
    is_constant = not (wanted.free_symbols or given.free_symbols)
    if not is_constant and (wanted.has(Sum, Product) or given.has(Sum, Product)):
        return None  # an upper limit is an integer, the points are not
    distances = list(_relative_distances(wanted, given, 1 if is_constant else _POINTS))
    if any(distance > CLEARLY_DIFFERENT for distance in distances):
        return False
    is_exact = not (wanted.has(Float) or given.has(Float))
    if distances and is_constant and is_exact and distances[0] < CERTAINLY_SAME:
        return True
    return None


def _relative_distances(wanted: Expr, given: Expr, points: int) -> Iterator[float]:
    """Yield the relative distance of the values at each point where both are defined."""
    from sympy import Rational

    symbols = sorted(wanted.free_symbols | given.free_symbols, key=str)
    for point in range(points):
        # Both signs occur, none is an integer, and all symbols differ.
        substitutions = {
            symbol: Rational((-1) ** (index + point) * (731 + 618 * index + 1414 * point), 1000)
            for index, symbol in enumerate(symbols)
        }
        left, right = _value(wanted, substitutions), _value(given, substitutions)
        if left is not None and right is not None:
            yield float(abs(left - right) / max(1, abs(left), abs(right)))


def _value(expression: Expr, substitutions: dict[Any, Any]) -> Any:
    """Return the real or complex value to `DIGITS` digits; None where it is undefined or not certain."""
    from sympy.core.evalf import PrecisionExhausted  # type: ignore[import-untyped]

    try:
        value = expression.evalf(DIGITS, subs=substitutions, strict=True)
    except (PrecisionExhausted, TypeError, ValueError, ArithmeticError, AttributeError, NotImplementedError):
        return None  # sympy has no single error for an expression that it cannot evaluate
    return value if value.is_number and value.is_finite else None
