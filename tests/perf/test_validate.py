"""The benchmark of `ng_validate` and of the import of an environment's base."""

from __future__ import annotations

from perf.measure import leaves
from perf.validate import IMPORTED, run


def test_the_figures_are_those_of_whole_processes() -> None:
    figures = run(1)
    assert all(value > 0 for _, value in leaves(figures))
    imported = figures[f"import {IMPORTED}"]
    assert (
        figures["ng_validate"]["forks_cpu_s"] > imported["cpu_s"] / 2
    )  # the fork server imports the base too
