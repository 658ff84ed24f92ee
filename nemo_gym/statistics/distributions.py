"""The beta distribution and Student's t, for exact intervals and p-values."""

from __future__ import annotations

from math import exp, lgamma, log, log1p

_TINY = 1e-300
_MOST_TERMS = 10_000
_PRECISION = 1e-15


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b): P(X ≤ x) for a beta distribution.

    The continued fraction of DLMF 8.17.22, evaluated by Lentz's method, on the side where it converges fast.
    """
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(x, a, b) / a
    return 1.0 - front * _continued_fraction(1.0 - x, b, a) / b


def _continued_fraction(x: float, a: float, b: float) -> float:
    numerator, denominator = 1.0, 1.0 - (a + b) * x / (a + 1)
    denominator = 1.0 / (denominator or _TINY)
    result = denominator
    for m in range(1, _MOST_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for coefficient in (even, odd):
            denominator = 1.0 / ((1.0 + coefficient * denominator) or _TINY)
            numerator = (1.0 + coefficient / numerator) or _TINY
            result *= denominator * numerator
        if abs(denominator * numerator - 1.0) < _PRECISION:
            return result
    return result


def find_beta_quantile(probability: float, a: float, b: float) -> float:
    """Return x with P(X ≤ x) = `probability` for a beta distribution, by bisection to the last bit."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        if beta_cdf(middle, a, b) < probability:
            low = middle
        else:
            high = middle
    return high


def student_t_cdf(t: float, degrees: float) -> float:
    """Return P(T ≤ t) for Student's t distribution: by the beta distribution, as in DLMF 8.17 and Abramowitz 26.7.1."""
    tail = beta_cdf(degrees / (degrees + t * t), degrees / 2, 0.5) / 2
    return 1.0 - tail if t > 0 else tail


def find_rate_interval(successes: float, trials: float, error: float = 0.05) -> tuple[float, float]:
    """Return the interval of a success rate: Clopper and Pearson 1934, "The Use of Confidence or Fiducial Limits".

    Its confidence is at least 1 - `error`. Without a trial it is from 0 to 1.
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials are impossible")
    failures = trials - successes
    low = find_beta_quantile(error / 2, successes, failures + 1) if successes else 0.0
    high = find_beta_quantile(1 - error / 2, successes + 1, failures) if failures else 1.0
    return low, high
