"""Adjusted p-values and ranks."""

from __future__ import annotations

import pytest

from nemo_gym.statistics.multiplicity import (
    ADJUSTMENTS,
    adjust_benjamini_hochberg,
    adjust_bonferroni,
    adjust_holm,
    compare_paired,
    rank_with_intervals,
)

P_VALUES = [0.01, 0.04, 0.03, 0.005]


def test_adjusted_p_values() -> None:
    # R: p.adjust(c(0.01, 0.04, 0.03, 0.005), method)
    assert adjust_holm(P_VALUES) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjust_bonferroni(P_VALUES) == pytest.approx([0.04, 0.16, 0.12, 0.02])
    assert adjust_benjamini_hochberg(P_VALUES) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert ADJUSTMENTS["none"](P_VALUES) == P_VALUES
    for adjust in ADJUSTMENTS.values():
        assert adjust([]) == []
        assert max(adjust([0.9, 0.8])) <= 1


def test_a_paired_test() -> None:
    # R: t.test(c(0.2, 0.1, 0, -0.1, 0.3)): t = 1.4142, p-value = 0.2302
    found = compare_paired([0.2, 0.1, 0.0, -0.1, 0.3])
    assert found is not None
    assert found.difference == pytest.approx(0.1)
    assert found.p_value == pytest.approx(0.2301996, abs=1e-6)
    assert compare_paired([0.1]) is None


def test_equal_differences_are_certain() -> None:
    none, some = compare_paired([0.0, 0.0]), compare_paired([0.1, 0.1, 0.1])
    assert none is not None
    assert some is not None
    assert (none.p_value, some.p_value) == (1.0, 0.0)


def test_ranks_have_the_bounds_that_comparisons_leave() -> None:
    means = [0.9, 0.5, 0.49]
    shown = {(0, 1), (0, 2)}
    ranks = rank_with_intervals(means, lambda one, other: (one, other) in shown)
    assert ranks == [(1, 1, 1), (2, 2, 3), (3, 2, 3)]
    assert rank_with_intervals([0.5, 0.5], lambda one, other: False) == [(1, 1, 2), (1, 1, 2)]
