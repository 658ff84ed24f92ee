"""The distributions agree with mpmath, an independent implementation."""

from __future__ import annotations

import mpmath
import pytest

from nemo_gym.statistics.distributions import (
    beta_cdf,
    find_beta_quantile,
    find_rate_interval,
    student_t_cdf,
)


@pytest.mark.parametrize("a", [0.5, 1.0, 7.0, 300.0])
@pytest.mark.parametrize("b", [0.5, 2.0, 40.0, 5000.0])
@pytest.mark.parametrize("x", [1e-6, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9])
def test_the_beta_distribution(a: float, b: float, x: float) -> None:
    expected = float(mpmath.betainc(a, b, 0, x, regularized=True))
    assert beta_cdf(x, a, b) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_the_ends_of_the_beta_distribution() -> None:
    assert (beta_cdf(0.0, 2, 3), beta_cdf(1.0, 2, 3)) == (0.0, 1.0)
    assert find_beta_quantile(0.5, 3, 3) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("t", [-3.0, -0.1, 0.0, 1.7, 8.0])
@pytest.mark.parametrize("degrees", [1, 4, 199])
def test_students_t(t: float, degrees: int) -> None:
    x = mpmath.mpf(degrees) / (degrees + mpmath.mpf(t) ** 2)
    tail = mpmath.betainc(degrees / 2, 0.5, 0, x, regularized=True) / 2
    expected = float(1 - tail if t > 0 else tail)
    assert student_t_cdf(t, degrees) == pytest.approx(expected, rel=1e-9)


def test_the_interval_of_a_rate() -> None:
    # Clopper and Pearson by R's binom.test(7, 20): 0.1539092, 0.5921885
    assert find_rate_interval(7, 20) == pytest.approx((0.1539092, 0.5921885), abs=1e-7)
    assert find_rate_interval(0, 10) == pytest.approx((0.0, 1 - 0.025**0.1), abs=1e-12)
    assert find_rate_interval(10, 10)[1] == 1.0
    assert find_rate_interval(0, 0) == (0.0, 1.0)
    with pytest.raises(ValueError, match="impossible"):
        find_rate_interval(3, 2)
