"""The page of figures is written from kept results, and from nothing else."""

from __future__ import annotations

import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

from perf.catalogue import BENCHMARKS
from perf.chart import Plot, svg_of
from perf.goals import GOALS, Goal
from perf.page import PAGE, PLOTS, figures_table, goals_table, number, rendered
from perf.results import FOLDER, Result, comparable, keep, read

SVG = "{http://www.w3.org/2000/svg}"


def result(commit: str, figures: dict[str, Any], benchmark: str = "calls", cores: int = 2) -> Result:
    machine = {"system": "Linux", "processor": "a processor", "cores": cores, "load": 0.1}
    about = {
        "commit": commit,
        "at": "2026-11-21T03:00:00+00:00",
        "machine": machine,
        "versions": {"python": "3.11.7"},
    }
    return Result(benchmark, figures, about, {"runs": 1}, 1.0)


def test_the_page_is_what_the_kept_results_make_it() -> None:
    """A table that somebody edited, or results that were kept without `python -m perf.page`, fail here."""
    page = PAGE.read_text(encoding="utf-8")
    written, plots = rendered(page, FOLDER)
    assert written == page
    on_disk = {path.stem: path.read_text(encoding="utf-8") for path in (PAGE.parent / PLOTS).glob("*.svg")}
    assert on_disk == plots


def test_every_benchmark_has_its_place_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in (*BENCHMARKS, "goals", "benchmarks"):
        assert page.count(f"<!-- figures: {name} -->") == 1, name


def test_kept_results_become_tables_and_plots(tmp_path: Path) -> None:
    for commit, instructions in (("a1", 30_000), ("b2", 26_000.4)):
        keep(
            result(
                commit, {"inline": {"instructions_per_rollout": instructions, "most": {"f": {"calls": 3}}}}
            ),
            tmp_path,
        )
    page, plots = rendered("<!-- figures: calls -->\nby hand\n<!-- end of figures -->\n", tmp_path)
    assert "by hand" not in page
    assert "`b2`, 2026-11-21; a processor, 2 cores" in page
    assert "|  | instructions a rollout |\n| --- | --- |\n| inline | 26,000 |\n" in page
    assert "calls.svg" in page
    svg = xml.etree.ElementTree.fromstring(plots["calls"])
    assert len(svg.findall(f".//{SVG}circle")) == 2, "a point a commit"
    assert {"a1", "b2"} <= {text.text for text in svg.iter(f"{SVG}text")}


def test_a_commit_is_kept_once_a_machine(tmp_path: Path) -> None:
    for figure, cores in ((1, 2), (2, 2), (3, 8)):
        keep(result("a1", {"x": figure}, cores=cores), tmp_path)
    kept = read("calls", tmp_path)
    assert [each.figures["x"] for each in kept] == [2, 3]
    assert comparable(kept) == [kept[-1]], "figures of another machine are no figures to compare with"


def test_figures_are_kept_with_four_digits(tmp_path: Path) -> None:
    keep(result("a1", {"group": {"seconds": 0.123456789, "count": 123_456}}), tmp_path)
    assert read("calls", tmp_path)[0].figures == {"group": {"seconds": 0.1235, "count": 123_456}}


def test_a_table_has_the_columns_that_are_named_and_a_row_for_each_group() -> None:
    figures = {
        "floor": {"cpu_ms": 0.05},
        "process": {
            "64": {"rate": 812.3, "cpu_ms": 2.345, "parts": {"agent": 1.0}},
            "1024": {"rate": 12_345.6},
        },
    }
    assert figures_table(figures, {"rate": "rollouts/s", "cpu_ms": "CPU ms"}) == (
        "|  |  | rollouts/s | CPU ms |\n"
        "| --- | --- | --- | --- |\n"
        "| floor |  |  | 0.05 |\n"
        "| process | 64 | 812 | 2.35 |\n"
        "|  | 1024 | 12,346 |  |\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0312, "0.031"), (3, "3"), (2.0, "2"), (1.256, "1.26"), (45.67, "45.7"), (1234.5, "1,234")],
)
def test_numbers_have_the_digits_that_can_be_relied_on(value: float, text: str) -> None:
    assert number(value) == text


def test_goals_say_what_is_reached_of_them() -> None:
    figures = {"ng_run": {"ready_s": 2.5, "memory_mb": 180.0}}
    table = goals_table({"startup": result("a1", figures, "startup")})
    assert "| four servers ready | at most 2 s | 2.50 s | no |" in table
    assert "| their memory in all | at most 600 MB | 180 MB | yes |" in table
    assert "| `import nemo_gym` | at most 0.25 s |  |  |" in table, "what wasn't measured isn't claimed"


def test_a_goal_can_be_a_ratio_of_two_figures() -> None:
    goal = Goal("", "rollouts", ("many", "rate"), 0.9, relative_to=("few", "rate"))
    value = goal.value_in({"many": {"rate": 80.0}, "few": {"rate": 100.0}})
    assert value == pytest.approx(0.8)
    assert not goal.is_reached_by(0.8)
    assert goal.value_in({"many": {"rate": 80.0}}) is None


def test_goals_and_panels_are_of_benchmarks_that_there_are() -> None:
    assert {goal.benchmark for goal in GOALS} <= set(BENCHMARKS)


def test_a_plot_draws_each_curve_within_its_panel_and_skips_commits_without_a_value() -> None:
    svg = xml.etree.ElementTree.fromstring(
        svg_of(
            ["a", "b", "c"], [Plot("rate < 1", {"x & y": [1.0, None, 3.0], "z": [2.0, 2.0, 2.0]}, goal=2.5)]
        )
    )
    circles = svg.findall(f".//{SVG}circle")
    assert len(circles) == 5
    assert all(0 <= float(circle.attrib["cy"]) <= float(svg.attrib["height"]) for circle in circles)
    lowest = max(circles, key=lambda circle: float(circle.attrib["cy"]))
    assert float(lowest.attrib["cx"]) == min(float(circle.attrib["cx"]) for circle in circles)
    assert {"rate < 1", "x & y", "goal 2.5"} <= {text.text for text in svg.iter(f"{SVG}text")}
