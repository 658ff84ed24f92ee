"""Options of a collection as keys of commands."""

from __future__ import annotations

from nemo_gym.rollouts.run.options import LimitOptions, RunLimits


def test_the_limits_of_a_run_are_those_of_its_keys() -> None:
    assert LimitOptions().limits == RunLimits()
    limits = LimitOptions.model_validate({"num_samples_in_parallel": 3, "max_attempts": 2}).limits
    assert (limits.in_parallel, limits.max_attempts) == (3, 2)
