"""The verifiers' benchmark repeats the request for an attempt's score many times."""

from __future__ import annotations

from perf.verifiers import IN_PROCESS, POOL, BenchKeys, run


def test_an_environment_without_workers_has_one_figure_and_one_with_workers_two() -> None:
    keys = BenchKeys(environments=["string_match", "instruction_following", "blackjack"], seconds=0.05)
    figures = run(1, keys)
    assert set(figures) == {"string_match", "instruction_following"}, "blackjack scores while it is played"
    assert set(figures["string_match"]) == {IN_PROCESS}
    assert set(figures["instruction_following"]) == {IN_PROCESS, POOL}
    assert all(each["scores_per_s"] > 0 for ways in figures.values() for each in ways.values())
