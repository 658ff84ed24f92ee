"""The lists that are looked at every day: runs that appear, several runs by environment, seconds, narrow windows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nemo_gym.viewer.exporting import export_page
from nemo_gym.viewer.filtering import RowFilter
from nemo_gym.viewer.finding import find_runs
from tests.browser.conftest import serving
from tests.browser.rows import failure_of, message, row_of, write_manifest, write_run
from tests.browser.test_accessible import found_by_axe
from tests.browser.visits import Visit

NARROW = {"width": 390, "height": 844}
TIMING = {
    "queue": 0.1,
    "act": 2.0,
    "verify": 0.5,
    "total": 2.6,
    "calls": [["policy_model", "/v1/responses", 1.25], ["shop", "/buy", 0.75]],
}


def write_named_run(rows: Path, model: str, *, failed: bool = False, tags: tuple[str, ...] = ()) -> Path:
    """A run with a manifest; without any row if all of it failed."""
    shown = (
        []
        if failed
        else [row_of(task, 0, [message("x")], task % 2) | {"_ng_timing": TIMING} for task in range(4)]
    )
    write_run(rows, shown, [failure_of(0, 0, message="late")] if failed else [])
    if failed:
        rows.unlink()
    counts = {"planned": 4, "completed": len(shown), "truncated": 0, "failed": 4 - len(shown)}
    write_manifest(rows, model, counts, end="partial" if failed else "complete", tags=tags)
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    write_named_run(folder / "one.jsonl", "org/small", tags=("nightly",))
    write_named_run(folder / "two.jsonl", "org/large")
    write_named_run(folder / "bad.jsonl", "org/large", failed=True)
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    with serving([folder]) as address:
        yield address


def test_the_list_names_model_environment_sampling_date_and_tags(visit: Visit, address: str) -> None:
    visit.open(address)
    visit.wait_for("nightly")
    words = visit.text()
    for word in ("org/small", "shop", "temperature 0.7", "2026-05-01 18:30", "nightly", "bad"):
        assert word in words
    visit.page.locator("#search").fill("org/large")
    visit.wait_for("2 runs")
    assert visit.page.locator("tbody tr").count() == 2
    visit.page.locator("#search").fill("nightly small")
    visit.page.locator("tbody tr").filter(has_text="two").wait_for(state="detached")
    assert visit.page.locator("tbody tr").count() == 1


def test_runs_that_are_made_later_appear(tmp_path: Path, visit: Visit) -> None:
    write_named_run(tmp_path / "first.jsonl", "org/small")
    with serving([tmp_path]) as address:
        visit.open(address)
        visit.wait_for("1 run")
        for number in range(20):
            write_named_run(tmp_path / f"later{number}.jsonl", "org/new")
        visit.wait_for("21 runs")
        visit.page.get_by_role("link", name="later7", exact=True).click()
        visit.wait_for("Reward by agent")


def test_one_named_file_opens_its_overview(folder: Path, visit: Visit) -> None:
    with serving([folder / "one.jsonl"]) as address:
        visit.page.goto(address)
        visit.wait_for("Reward by agent")
        visit.note_origin(address.split("#")[0])


def test_several_runs_are_compared_by_environment(visit: Visit, address: str) -> None:
    visit.open(address)
    visit.wait_for("nightly")
    for name in ("one", "two", "bad"):
        visit.page.get_by_label(f"Choose {name} for a comparison").check()
    visit.focus_page()
    visit.press("a")
    visit.wait_for("Paired differences")
    words = visit.text()
    assert "3 runs, 1 environment" in words
    assert "policy_model.responses_api_models.vllm_model.model" in words
    assert "org/small" in words
    assert "The runs differ in 1 key" in words
    assert "temperature 0.7" in words
    assert "started 2026-05-01 18:30 UTC" in words


def test_two_runs_are_compared_by_environment_with_the_keys_that_differ(visit: Visit, address: str) -> None:
    visit.open(address)
    visit.wait_for("nightly")
    for name in ("one", "two"):
        visit.page.get_by_label(f"Choose {name} for a comparison").check()
    visit.focus_page()
    visit.press("c")
    visit.wait_for("The runs differ in 1 key")
    words = visit.text()
    assert "one: org/small · shop · temperature 0.7 · started 2026-05-01 18:30 UTC nightly" in words
    assert "two: org/large" in words
    cells = visit.page.get_by_role("group", name="an_agent").locator("tbody tr").first.inner_text().split()
    assert cells[:2] == ["org/small", "0.500"]


def test_the_overview_names_the_model_environment_sampling_date_and_tags(visit: Visit, address: str) -> None:
    visit.open(address)
    visit.wait_for("nightly")
    visit.page.get_by_role("link", name="one", exact=True).click()
    visit.wait_for("org/small · shop · temperature 0.7 · started 2026-05-01 18:30 UTC nightly")


def test_tasks_have_titles_and_partial_rewards_a_best_reward(visit: Visit, tmp_path: Path) -> None:
    rows = [row_of(task, k, [message("x")], [0.25, 0.5][k]) for task in (2, 0, 1) for k in range(2)]
    write_run(tmp_path / "partial.jsonl", rows, [])
    write_run(tmp_path / "solved.jsonl", [row_of(0, k, [message("x")], k) for k in range(2)], [])
    with serving([tmp_path]) as address:
        visit.open(address)
        visit.wait_for("2 runs")
        for name, title, best in (("partial", "best@2", "0.500"), ("solved", "pass@2", "100.0 %")):
            visit.go("#/")
            visit.page.get_by_role("link", name=name, exact=True).click()
            visit.wait_for("Reward by agent")
            run = visit.page.url.rpartition("#/")[2]
            visit.go(f"#/{run}/rollouts?group=task")
            visit.page.get_by_role("columnheader", name=title).wait_for()
            first = visit.page.locator("#row-0")
            first.filter(has_text="Question 0").wait_for()
            assert best in first.inner_text()


def test_a_file_of_three_runs_has_their_table(visit: Visit, folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "runs.html"
    page.write_text(export_page(find_runs([folder]), RowFilter("")).html)
    visit.open(page.as_uri())
    visit.wait_for("3 runs")
    for name in ("one", "two", "bad"):
        visit.page.get_by_label(f"Choose {name} for a comparison").check()
    visit.page.get_by_role("link", name="By environment").click()
    visit.wait_for("The runs differ in 1 key")
    assert visit.page.get_by_role("group", name="an_agent").locator("tbody tr").count() == 3
    visit.page.get_by_role("group", name="Paired differences").get_by_role("link").click()
    visit.wait_for("Mean before")
    visit.wait_for("The runs differ in 1 key")


def test_seconds_are_shown_by_phase_and_by_call(visit: Visit, address: str) -> None:
    visit.open(address)
    visit.wait_for("nightly")
    visit.page.get_by_role("link", name="one", exact=True).click()
    visit.wait_for("Seconds and tokens of a rollout")
    times = visit.text("section:has(h2:text('Seconds and tokens of a rollout')) tbody").split()
    assert times[:6] == ["an_agent", "2.600", "0.100", "1.250", "0.750", "0.500"]
    run = visit.page.url.rpartition("#/")[2]
    visit.go(f"#/{run}/rollout/1/0?tab=timing")
    visit.wait_for("Seconds of each call")
    assert "tool buy" in visit.text()


@pytest.fixture(params=["light", "dark"])
def narrow(chromium: Any, request: pytest.FixtureRequest) -> Iterator[Visit]:
    context = chromium.new_context(viewport=NARROW, color_scheme=request.param, bypass_csp=True)
    yield Visit(context)
    context.close()


def test_pages_fit_a_narrow_window_and_axe_finds_nothing(narrow: Visit, address: str) -> None:
    narrow.open(address)
    narrow.wait_for("nightly")
    links = [
        "#/",
        "#/r0",
        "#/r1/rollouts",
        "#/r1/rollout/1/0",
        "#/r1/rollout/1/0?tab=timing",
        "#/r1/rollouts?group=task",
        "#/table/r0/r1/r2",
        "#/compare/r0/r1",
    ]
    assert found_by_axe(narrow, links) == ""
    for link in links:
        narrow.go(link)
        narrow.page.locator("main").get_by_text("Reading…").first.wait_for(state="detached")
        assert narrow.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], link
    for link, title in (
        ("#/", "Mean"), ("#/r1", "Mean"), ("#/r1/rollouts?group=task", "mean"), ("#/r1/rollouts", "title"),
    ):  # fmt: skip
        narrow.go(link)
        header = narrow.page.get_by_role("columnheader", name=title, exact=True).first
        header.wait_for()
        box = header.bounding_box()
        assert box["x"] + box["width"] <= NARROW["width"], f"{title} of {link} is in view"
    narrow.go("#/r1/rollout/1/0")
    narrow.wait_for("Why this reward")
    reward = narrow.page.locator(".reward").bounding_box()
    said = narrow.page.locator(".transcript").bounding_box()
    assert reward["y"] > said["y"], "the conversation comes first"
    assert narrow.page.locator(".head").bounding_box()["height"] <= 80
