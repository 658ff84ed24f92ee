"""The page of figures is written from kept results, and from nothing else."""

from __future__ import annotations

import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

from perf.catalogue import BENCHMARKS, Panel
from perf.goals import GOALS, Goal
from perf.measure import digest_code
from perf.page import PAGE, PLOTS, figures_table, goals_table, number, refuse_old_figures, rendered
from perf.plot import draw
from perf.results import Result, comparable, keep, read

CODE = "0123456789abcdef"
SVG = "{http://www.w3.org/2000/svg}"


def result(commit: str, figures: dict[str, Any], benchmark: str = "calls", cores: int = 2) -> Result:
    return {
        "benchmark": benchmark,
        "commit": commit,
        "code": CODE,
        "at": "2026-11-21T03:00:00+00:00",
        "machine": {"system": "Linux", "processor": "a processor", "cores": cores, "load": 0.1},
        "versions": {"python": "3.11.7"},
        "settings": {"runs": 1},
        "seconds": 1.0,
        "figures": figures,
    }


def test_the_page_is_what_the_kept_results_make_it() -> None:
    """A table that was edited, or results that were kept without `python -m perf.page`, fail here."""
    page = PAGE.read_text(encoding="utf-8")
    kept = {name: read(name) for name in BENCHMARKS}
    assert rendered(page, kept, digest_code()) == page
    plotted = {name for name, results in kept.items() if results and BENCHMARKS[name].panels}
    assert {path.stem for path in (PAGE.parent / PLOTS).glob("*.svg")} == plotted


def test_every_benchmark_has_its_place_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in (*BENCHMARKS, "goals", "benchmarks"):
        assert page.count(f"<!-- figures: {name} -->") == 1, name


def test_kept_results_become_tables() -> None:
    kept = [
        result(commit, {"inline": {"instructions_per_rollout": instructions, "most": {"f": {"calls": 3}}}})
        for commit, instructions in (("a1", 30_000), ("b2", 26_000.4))
    ]
    page = rendered("<!-- figures: calls -->\nby hand\n<!-- end of figures -->\n", {"calls": kept}, CODE)
    assert "by hand" not in page
    assert "`b2`, 2026-11-21; a processor, 2 cores" in page
    assert "|  | instructions a rollout |\n| --- | --- |\n| inline | 26,000 |\n" in page
    assert "calls.svg" in page


def test_a_commit_is_kept_once_a_machine(tmp_path: Path) -> None:
    for figure, cores in ((1, 2), (2, 2), (3, 8)):
        keep(result("a1", {"x": figure}, cores=cores), tmp_path)
    kept = read("calls", tmp_path)
    assert [each["figures"]["x"] for each in kept] == [2, 3]
    assert comparable(kept) == [kept[-1]], "figures of another machine do not compare"


def test_figures_are_kept_with_four_digits(tmp_path: Path) -> None:
    keep(result("a1", {"group": {"seconds": 0.123456789, "count": 123_456}}), tmp_path)
    assert read("calls", tmp_path)[0]["figures"] == {"group": {"seconds": 0.1235, "count": 123_456}}


def test_a_table_has_the_columns_that_are_named_and_a_row_for_each_group() -> None:
    figures = {
        "floor": {"cpu_ms": 0.05},
        "process": {
            "64": {"rate": 812.3, "cpu_ms": 2.345, "parts": {"agent": 1.0}},
            "1024": {"rate": 12_345.6},
        },
    }
    assert figures_table(figures, {"rate": "rollouts/s", "cpu_ms": "CPU ms"}) == (
        "|  | rollouts/s | CPU ms |\n"
        "| --- | --- | --- |\n"
        "| floor |  | 0.05 |\n"
        "| process, 64 | 812 | 2.35 |\n"
        "| process, 1024 | 12,346 |  |\n"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0312, "0.0312"), (3, "3"), (2.0, "2"), (1.256, "1.26"), (45.67, "45.7"), (1234.5, "1,234")],
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_goals_say_what_is_reached_of_them() -> None:
    figures = {"ng_run": {"ready_s": 2.5, "memory_mb": 180.0}}
    table = goals_table({"startup": [result("a1", figures, "startup")]}, CODE)
    assert "| four servers ready | at most 2 s | 2.5 s | no |" in table
    assert "| their memory in all | at most 600 MB | 180 MB | yes |" in table
    assert "| `import nemo_gym` | at most 0.25 s |  |  |" in table, (
        "a figure that was not measured is not claimed"
    )


def test_a_figure_of_other_code_is_marked_and_refused_for_a_release() -> None:
    kept = {"startup": [result("a1", {"ng_run": {"ready_s": 2.5}}, "startup")], "calls": []}
    block = "<!-- figures: startup -->\n<!-- end of figures -->\n"
    assert refuse_old_figures(kept, CODE) is None
    assert "has changed" not in rendered(block, kept, CODE)
    other = "another"
    assert "**The code has changed since.**" in rendered(block, kept, other)
    assert "| at most 2 s | 2.5 s | no, by older code |" in goals_table(kept, other)
    assert "startup" in (refuse_old_figures(kept, other) or "")


def test_a_goal_can_be_a_ratio_of_two_figures() -> None:
    goal = Goal("", "rollouts", ("many", "rate"), 0.9, relative_to=("few", "rate"))
    value = goal.value_in({"many": {"rate": 80.0}, "few": {"rate": 100.0}})
    assert value == pytest.approx(0.8)
    assert not goal.is_reached_by(0.8)
    assert goal.value_in({"many": {"rate": 80.0}}) is None


def test_goals_and_panels_are_of_benchmarks_that_there_are() -> None:
    assert {goal.benchmark for goal in GOALS} <= set(BENCHMARKS)


def test_a_plot_names_commits_curves_and_goals_and_skips_commits_without_a_value(tmp_path: Path) -> None:
    kept = [
        result(commit, {"x": x, "z": 2.0} if x else {"z": 2.0})
        for commit, x in (("a1", 1), ("b2", 0), ("c3", 3))
    ]
    panels = [Panel("rate < 1", {"x & y": ("x",), "z": ("z",)}, goal=2.5), Panel("another", {"z": ("z",)})]
    draw(kept, panels, tmp_path / "new" / "plot.svg")
    svg = xml.etree.ElementTree.parse(tmp_path / "new" / "plot.svg")
    texts = {"".join(text.itertext()).strip() for text in svg.iter(f"{SVG}text")}
    assert {"a1", "b2", "c3", "rate < 1", "another", "x & y", "z", "goal 2.5"} <= texts
