"""Few draws that a kill has lost count, and none after them."""

from __future__ import annotations

import pytest

from nemo_gym.rollouts.run.until_losses import count_kept


@pytest.mark.parametrize(
    ("lost", "earlier", "kept"),
    [
        ([], 0, 3000),
        ([2990, 2991, 2993, 2994], 0, 3000),
        ([2990, 2991, 2993, 2994, 2996, 2999], 0, 2997),
        ([10, 2991, 2993, 2994, 2996], 0, 2997),  # a straggler costs no later draws
        ([2990, 2991], 3, 2992),
        ([2990, 2991], 50, 2991),
    ],
)
def test_draws_that_count(lost: list[int], earlier: int, kept: int) -> None:
    assert count_kept(lost, 3000, 0.02, earlier=earlier) == kept


def test_a_wide_aim_allows_for_one() -> None:
    assert count_kept([84, 86, 99], 100, 0.4) == 85


def test_later_draws_do_not_decide() -> None:
    lost = [300, 700, 702, 705, 2000, 2001]
    kept = count_kept(lost, 3000, 0.02)
    assert kept == count_kept([number for number in lost if number < kept], kept, 0.02) == 2001
