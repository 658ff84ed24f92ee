"""A run in one file: the same pages, without a server, a worker or a request."""

from __future__ import annotations

from pathlib import Path

from tests.browser.hostile import PAYLOADS, poisoned
from tests.browser.rows import message, row_of, sampled, write_run
from tests.browser.single_files import answers_of, single_file
from tests.browser.visits import Visit


def packed(folder: Path) -> str:
    rows = [
        row_of(0, 0, [message("alpha")], 1.0),
        row_of(0, 1, [message("needle")], 0.0),
        row_of(1, 0, [sampled("x", [1, 2], [3, 4], [-0.1, -2.0])], 0.5),
        *(poisoned(payload, 10 + number) for number, payload in enumerate(PAYLOADS)),
    ]
    page = single_file("43 of 43 rollouts", answers_of(write_run(folder / "out.jsonl", rows), rows))
    target = folder / "run.html"
    target.write_text(page, encoding="utf-8")
    return target.as_uri()


def test_a_file_shows_the_same_pages(tmp_path: Path, visit: Visit) -> None:
    address = packed(tmp_path)
    visit.open(address)
    assert visit.text(".embedded-note") == "43 of 43 rollouts"
    visit.go("#/r0/rollouts?q=reward<1 task<2")
    visit.wait_for("2 of 43")
    visit.go("#/r0/rollouts?q=needle")
    visit.wait_for("1 of 43")
    visit.go("#/r0/task/0")
    visit.wait_for("2 attempts, 2 scored")
    visit.go("#/r0/rollout/1/0?tab=tokens")
    visit.wait_for("segment 1 of 1 · 4 ids · 2 trained")
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
