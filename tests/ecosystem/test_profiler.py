"""The profile of a process."""

from __future__ import annotations

import pstats
from pathlib import Path

from nemo_gym.ecosystem.profiler import Profiler


def slow_function() -> int:
    return sum(range(10_000))


def other_function() -> None:
    pass


def test_a_profile_has_the_functions_that_ran_in_between(tmp_path: Path) -> None:
    profiler = Profiler(name="run", base_profile_dir=tmp_path / "profiles", required_str="slow")
    profiler.start()
    slow_function()
    profiler.stop()
    other_function()
    names = {name for _, _, name in pstats.Stats(str(tmp_path / "profiles" / "run.prof")).stats}  # type: ignore[attr-defined]
    assert "slow_function" in names
    assert "other_function" not in names
    table = (tmp_path / "profiles" / "run.txt").read_text()
    assert "slow_function" in table
    assert "built-in method builtins.sum" not in table
