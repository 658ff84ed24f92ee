"""Tables of several runs fit a terminal, and Markdown has the same cells."""

from __future__ import annotations

from pathlib import Path

from nemo_gym.cli._run_table import describe_differences, draw_tables, write_markdown
from nemo_gym.rollouts.lookback.run_table import read_run_table
from nemo_gym.rollouts.output.run_facts import KeyDifference
from tests.rollouts.lookback.many_runs import store_models


def test_every_run_has_a_line_and_every_pair_another(tmp_path: Path) -> None:
    table = read_run_table(store_models(tmp_path, {"small": 0.2, "large": 0.8}, tasks=20, repeats=2))
    lines = list(draw_tables(table, 80))
    assert max(map(len, lines)) <= 80
    assert sum("org/small" in line for line in lines) == 3, "a cell, a pair, and the key that differs"
    cells = [line for line in write_markdown(table) if line.startswith("| quiz |")]
    assert len(cells) == 3


def test_long_values_and_many_keys_are_cut() -> None:
    keys = [KeyDifference(f"key{number}", ("x" * 500, "y")) for number in range(40)]
    lines = list(describe_differences(keys))
    assert max(map(len, lines)) < 80
    assert lines[-1] == "… and 10 more keys (--json has all)"
