"""Two checkouts are measured by turns, each with its own code."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nemo_gym.failures import ConfigError
from perf.comparison import compare, measured, ratios, table_of
from perf.measure import REPOSITORY, medians

PARTS = ("nemo_gym", "resources_servers", "responses_api_agents", "responses_api_models")


def test_ratios_are_taken_within_a_round() -> None:
    rounds = [
        ({"a": {"rate": 110.0}}, {"a": {"rate": 100.0}}),
        ({"a": {"rate": 60.0}}, {"a": {"rate": 50.0}}),  # the machine was busy: both were slow
        ({"a": {"rate": 130.0}}, {"a": {"rate": 100.0}}),
    ]
    (ratio,) = ratios(rounds)
    assert ratio.figure == "a, rate"
    assert (ratio.here, ratio.there) == (110.0, 100.0)
    assert (ratio.lowest, ratio.ratio, ratio.highest) == pytest.approx((1.1, 1.2, 1.3))
    cells = [list(column.cells) for column in table_of([ratio]).columns]
    assert cells == [["a, rate"], ["110"], ["100"], ["1.2"], ["1.1"], ["1.3"]]


def test_what_has_no_ratio_is_left_out() -> None:
    here = {"text": "x", "new": 1.0, "failed": 0, "rate": 2.0}
    there = {"text": "x", "failed": 0, "rate": 1.0}
    assert [ratio.figure for ratio in ratios([(here, there)])] == ["rate"]


def test_the_code_that_is_measured_is_that_of_the_checkout(tmp_path: Path) -> None:
    copy = tmp_path / "other"
    for part in PARTS:
        shutil.copytree(REPOSITORY / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    environment = copy / "resources_servers" / "example_single_tool_call" / "app.py"
    code = environment.read_text(encoding="utf-8")
    slower = "        for _ in range(50_000):\n            pass\n        seed ="
    environment.write_text(code.replace("        seed =", slower, 1), encoding="utf-8")
    there = measured("calls", {}, copy)
    assert there["inline"]["instructions_per_rollout"] > 100_000


def test_another_name_for_this_code_is_not_taken_for_another_checkout(tmp_path: Path) -> None:
    for part in PARTS:
        (tmp_path / part).symlink_to(REPOSITORY / part, target_is_directory=True)
    with pytest.raises(ConfigError, match="can't be measured"):
        measured("calls", {}, tmp_path)


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a checkout"):
        compare("calls", {}, tmp_path, 1)


def test_medians_are_taken_leaf_by_leaf() -> None:
    results = [{"a": {"x": value, "name": "n"}, "flag": True} for value in (3.0, 1.0, 2.0)]
    assert medians(results) == {"a": {"x": 2.0, "name": "n"}, "flag": True}
