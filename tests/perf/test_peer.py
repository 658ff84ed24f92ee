"""The benchmark beside a reference runs both whole commands, and shows the failure of a side that cannot."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from perf.episodes import EPISODES
from perf.peer import CASES, BenchKeys, Case, Side, compare_turns, measure, run


def test_both_sides_collect_the_same_tasks_by_their_own_commands() -> None:
    keys = BenchKeys(reference=Path(sys.executable), cases=["20 turns with ids, packed"], rollouts=2)
    figures = run(1, keys)
    assert figures["reference"]["is_python_allowed"] is True
    compared = figures["20 turns with ids, packed"]
    ours, reference = compared["ours"], compared["reference"]
    assert ours["row_kb"] < 0.5 * reference["row_kb"], "only ours is packed"
    for side in (ours, reference):
        assert side["rollouts_per_s"] > 0
        assert side["servers_cpu_ms"] > 0
        assert side["servers_memory_mb"] > 50
    ratios = compared["ratios"]
    assert ratios["times_rollouts_per_s"] == ours["rollouts_per_s"] / reference["rollouts_per_s"]
    assert ratios["times_row_kb"] == reference["row_kb"] / ours["row_kb"]


def test_one_process_has_the_figures_of_servers_and_collector_together() -> None:
    figures = measure(Side.find(Path(sys.executable)), Case(EPISODES["tool-calling"], 3, 2, is_inline=True))
    assert figures["rollouts_per_s"] > 0
    assert figures["servers_memory_mb"] > 50
    assert "collector_cpu_ms" not in figures


def test_a_side_that_fails_shows_the_end_of_its_log() -> None:
    case = Case(EPISODES["tool-calling"], 1, 1, ("+no_such_key_of_any_gym=1",))
    figures = measure(Side.find(Path(sys.executable)), case)
    assert "no_such_key_of_any_gym" in figures["failure"]
    assert compare_turns([({"rollouts_per_s": 1.0}, figures)]) == {
        "ours": {"rollouts_per_s": 1.0},
        "reference": figures,
    }


def test_ratios_are_medians_over_the_turns() -> None:
    turns = [
        ({"rollouts_per_s": 10.0 * n, "row_kb": 1.0}, {"rollouts_per_s": 2.0, "row_kb": 3.0})
        for n in (1, 2, 9)
    ]
    assert compare_turns(turns)["ratios"] == {"times_rollouts_per_s": 10.0, "times_row_kb": 3.0}


@pytest.mark.parametrize(
    ("path", "problem"), [("/no/such/python", "no such file"), ("/bin/false", "cannot import")]
)
def test_an_interpreter_without_a_gym_is_refused(path: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        run(1, BenchKeys(reference=Path(path)))


def test_an_unknown_case_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="no case tool-caling") as raised:
        run(1, BenchKeys(reference=Path(sys.executable), cases=["tool-caling"]))
    assert all(case in str(raised.value.failure.remedy) for case in CASES)
