"""The real session and collector keep an engine as busy as the page says."""

from __future__ import annotations

from statistics import fmean

import pytest

from simulation.served_sessions import measure_served
from simulation.sessions import measure_busy
from tests.samples import IS_WHOLE, one_in

STEPS, SEEDS = (200, range(3)) if IS_WHOLE else (40, range(1))
CELLS = [
    ("closed batches", 0),
    *(
        (policy, bound)
        for policy in ("oldest first, wait", "ready first, drop", "ready first, mask")
        for bound in (1, 2, 4)
    ),
]


@pytest.mark.parametrize(("policy", "bound"), one_in(3, CELLS))
def test_the_share_is_within_three_points_of_the_simulated_one(policy: str, bound: int) -> None:
    simulated = fmean(measure_busy(policy, bound, steps=STEPS, seed=seed).busy for seed in SEEDS)
    served = fmean(measure_served(policy, bound, steps=STEPS, seed=seed) for seed in SEEDS)
    assert served == pytest.approx(simulated, abs=0.03)
    if (policy, bound) == ("ready first, mask", 4):  # the default
        assert served >= 0.8
