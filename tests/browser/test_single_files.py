"""A run in one file: the same pages, without a server, a worker or a request."""

from __future__ import annotations

import json
from pathlib import Path

from nemo_gym.rollouts.lookback.comparison import compare
from nemo_gym.rollouts.lookback.run_table import read_run_table
from nemo_gym.viewer.exporting import export_page
from nemo_gym.viewer.filtering import RowFilter
from nemo_gym.viewer.finding import find_runs
from nemo_gym.viewer.notebook import view
from tests.browser.hostile import PAYLOADS, poisoned
from tests.browser.rows import failure_of, message, row_of, sampled, write_run
from tests.browser.visits import Visit


def write_page(folder: Path, html: str) -> str:
    target = folder / "run.html"
    target.write_text(html, encoding="utf-8")
    return target.as_uri()


def packed(folder: Path) -> str:
    rows = [
        row_of(0, 0, [message("alpha")], 1.0),
        row_of(0, 1, [message("needle")], 0.0),
        row_of(1, 0, [sampled("x", [1, 2], [3, 4], [-0.1, -2.0])], 0.5),
        *(poisoned(payload, 10 + number) for number, payload in enumerate(PAYLOADS)),
    ]
    page = export_page(find_runs([write_run(folder / "out.jsonl", rows)]), RowFilter(""))
    return write_page(folder, page.html)


def test_a_file_shows_the_same_pages(tmp_path: Path, visit: Visit) -> None:
    address = packed(tmp_path)
    visit.open(address)
    visit.wait_for("43 of 43 rollouts and 0 of 0 failed attempts of out.jsonl", ".embedded-note")
    visit.go("#/r0/rollouts?q=reward<1 task<2")
    visit.wait_for("2 of 43")
    visit.go("#/r0/rollouts?q=needle")
    visit.wait_for("1 of 43")
    visit.go("#/r0/task/0")
    visit.wait_for("2 attempts, 2 scored")
    visit.go("#/r0/rollout/1/0?tab=tokens")
    visit.wait_for("segment 1 of 1 · 4 ids · 2 trained")
    visit.page.reload()
    visit.page.locator('.token[data-at="3"]').wait_for()
    assert visit.page.locator(".token[data-at]").all_inner_texts() == ["[1]", "[2]", "[3]", "[4]"]
    visit.press("2")
    visit.page.locator("#raw-row").wait_for()
    line = (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()[2]
    assert json.loads(visit.page.locator("#raw-row").text_content() or "") == json.loads(line)
    visit.page.go_back()
    visit.wait_for("2 attempts, 2 scored")
    visit.go("#/r0/rollout/0/0?tab=tokens")
    visit.wait_for("no record of its tokens")
    for number in range(len(PAYLOADS)):
        visit.go(f"#/r0/rollout/{10 + number}/0")
        visit.wait_for(f"Task {10 + number}", "h1")
        visit.page.locator(".transcript").wait_for()
        visit.show_all_items()
    for link in ("#/r0", "#/r0/failures", "#/r0/flags", "#/r0/config"):
        visit.go(link)
        visit.page.wait_for_timeout(200)
    assert [url for url in visit.requests if not url.startswith((address, "data:"))] == []


def test_figures_and_comparisons_are_of_the_whole_runs(tmp_path: Path, visit: Visit) -> None:
    rewards = {"one": [0.0, 0.0, 1.0, 2.0], "two": [1.0, 2.0, 3.0, 2.0]}
    paths = [
        write_run(
            tmp_path / f"{name}.jsonl",
            [row_of(task, 0, [message("x")], reward) for task, reward in enumerate(own)],
            [failure_of(4, 0, message="late"), failure_of(5, 0, message="late")],
        )
        for name, own in rewards.items()
    ]
    cells = read_run_table(paths).runs[1].cells["an_agent"]
    compared = compare(*paths)
    assert compared.interval is not None
    address = write_page(tmp_path, export_page(find_runs(paths), RowFilter(""), 1).html)
    visit.open(address)
    visit.wait_for("2 of 8 rollouts and 2 of 4 failed attempts of 2 runs are in this page", ".embedded-note")
    visit.page.get_by_role("link", name="two.jsonl", exact=True).click()
    visit.wait_for(f"{cells.low:.3f} to {cells.high:.3f}")
    assert f"{cells.mean:.3f}" in visit.text()
    assert visit.text(".figures").split()[:4] == ["Tasks", "6", "Rollouts", "6"]
    for name, words in (
        ("Rollouts", "1 of 1"),
        ("Failures", "1 failed attempt of 2, by cause"),
        ("Flags", "The rules saw the 1 of 4 rollouts that are in this page."),
    ):
        visit.page.get_by_role("link", name=name, exact=True).click()
        visit.wait_for(words)
    visit.go("#/")
    for name in ("one", "two"):
        visit.page.get_by_label(f"Choose {name}.jsonl for a comparison").check()
    visit.page.get_by_role("button", name="Compare one.jsonl with two.jsonl").click()
    low, high = compared.interval.low, compared.interval.high
    visit.wait_for(f"{low:+.3f} to {high:+.3f}")
    assert f"+{compared.difference:.3f}" in visit.text(".figures")
    visit.page.locator("tbody tr").filter(has_text="Question 0").locator("a").first.click()
    visit.wait_for("1 attempt, 1 scored")
    visit.page.go_back()
    visit.page.locator("tbody tr").filter(has_text="+2.000").first.locator("a").first.click()
    visit.wait_for("This page has no attempt at task")


def test_a_frame_of_a_notebook_has_links_and_keys(tmp_path: Path, visit: Visit) -> None:
    rows = [row_of(0, 0, [message("alpha")], 1.0), row_of(1, 0, [message("needle")], 0.0)]
    cell = f"<!doctype html><title>cell</title>{view(rows)._repr_html_()}"
    address = write_page(tmp_path, cell)
    visit.open(address)
    frame = visit.page.frame_locator("iframe")
    frame.get_by_role("link", name="rollouts.jsonl").click()
    frame.get_by_role("heading", name="Reward by agent").wait_for()
    frame.get_by_role("link", name="Rollouts", exact=True).click()
    frame.locator("#filter").fill("reward<1")
    frame.get_by_text("1 of 2").first.wait_for()
    frame.locator(".grid-rows a").first.click()
    frame.get_by_text("needle").first.wait_for()
    frame.locator("body").press("2")
    frame.locator("#raw-row").wait_for()
    assert visit.page.evaluate("document.title") == "cell"
