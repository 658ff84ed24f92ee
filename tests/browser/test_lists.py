"""The lists that are looked at every day: runs that appear, several runs by environment, seconds, narrow windows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import serving
from tests.browser.rows import failure_of, message, row_of, write_run
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
    agent = {"resources_server": {"name": "shop"}, "model_server": {"name": "policy_model"}}
    config = {
        "policy_model": {"responses_api_models": {"vllm_model": {"model": model}}},
        "shop_agent": {"responses_api_agents": {"simple_agent": agent}},
    }
    counts = {"planned": 4, "completed": len(shown), "truncated": 0, "failed": 4 - len(shown)}
    start = {
        "started_at": "2026-05-01T18:30:00+00:00",
        "end": "partial" if failed else "complete",
        "counts": counts,
        "settings": {"tags": [*tags]},
    }
    identity = {"config": config, "responses_create_params": {"temperature": 0.7}}
    manifest = {"schema_version": 1, "identity": identity, "starts": [start]}
    rows.with_name(f"{rows.stem}_run.json").write_text(json.dumps(manifest))
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


def test_seconds_are_shown_by_phase_and_by_call(visit: Visit, address: str) -> None:
    visit.open(address)
    visit.wait_for("nightly")
    visit.page.get_by_role("link", name="one", exact=True).click()
    visit.wait_for("model 1.250 s, tools 0.750 s, verify 0.500 s")
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
        "#/table/r0/r1/r2",
    ]
    assert found_by_axe(narrow, links) == ""
    for link in links:
        narrow.go(link)
        narrow.page.locator("main").get_by_text("Reading…").first.wait_for(state="detached")
        assert narrow.page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], link
    narrow.go("#/")
    narrow.wait_for("nightly")
    header = narrow.page.get_by_role("columnheader", name="Mean").bounding_box()
    assert header["x"] + header["width"] <= NARROW["width"], "the mean is in view"
    narrow.go("#/r1/rollout/1/0")
    narrow.wait_for("Why this reward")
    reward = narrow.page.locator(".reward").bounding_box()
    said = narrow.page.locator(".transcript").bounding_box()
    assert reward["y"] > said["y"], "the conversation comes first"
    assert narrow.page.locator(".head").bounding_box()["height"] <= 80
